/* The four functions that rocketmq-client-python 2.0.0 looks up when it is imported, and that the library of the wheel
 * rocketmq 0.4.4 lacks. The linker makes this file a library that depends on that one, so all other functions are its own.
 * Nothing calls these four: a call ends the process. */
#include <stdio.h>
#include <stdlib.h>

#define MISSING(name)                                                                \
    void name(void) {                                                                \
        fputs(#name " is not in the library of the wheel rocketmq 0.4.4\n", stderr); \
        abort();                                                                     \
    }

MISSING(CreateOrderlyProducer)
MISSING(SendMessageOrderlyByShardingKey)
MISSING(CreateTransactionProducer)
MISSING(SendMessageTransaction)
