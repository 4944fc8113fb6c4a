"""`python -m benchmarks.up.clients NAMESRV RATE SECONDS HOME`: a producer and a consumer of one topic, with their traces.

It sends so many messages per second, for so many seconds, by the official Java client; each message is consumed once.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from sandbox import admin, java_client
from sandbox.java_client import Subscription, Tracing

TOPIC, PRODUCERS, CONSUMERS = "bench-up", "bench-up-producers", "bench-up-consumers"


def main() -> None:
    namesrv, rate, seconds, home = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    java_client.start_jvm(home)
    with admin.connected(namesrv) as tool:
        admin.create_topic(tool, TOPIC, 4)
        admin.create_topic(tool, f"%RETRY%{CONSUMERS}", 1)
    consumer = java_client.consumer(
        namesrv,
        Subscription(CONSUMERS, {TOPIC: "*"}),
        f"consumer#{os.getpid()}",
        Tracing(),
        lambda *_: "success",
    )
    java_client.wait_for_queues(consumer)
    producer = java_client.producer(namesrv, PRODUCERS, f"producer#{os.getpid()}", Tracing())
    begin = time.monotonic()
    for number in range(round(rate * seconds)):
        pause = begin + number / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        producer.java.send(java_client.message(TOPIC, "x" * 120, keys=f"bench-{number}"))
    took = time.monotonic() - begin
    java_client.shut_down([producer, consumer])
    print(f"{round(rate * seconds)} messages in {took:.1f} s", flush=True)


if __name__ == "__main__":
    main()
