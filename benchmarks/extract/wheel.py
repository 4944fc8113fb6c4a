"""The PyPI package `rocketmq` 0.4.4 as a contestant; it runs in an environment of its own, without this project.

`python wheel.py NAMESRV TOPIC` says READY, then answers each line `start end` with `DONE messages bytes`. Its
PullConsumer is a generator over one pull after the other; it starts where `offset_table` says. It gives no error
where a pull fails, it tries again: so the caller sets a limit of time.
"""

import sys
from itertools import islice

from rocketmq.client import PullConsumer

MOST_A_PULL = 32


def read(consumer, topic, start, end):
    PullConsumer.offset_table = {f"{topic.encode()}@0": start}
    messages = size = 0
    for message in islice(consumer.pull(topic, "*", MOST_A_PULL), end - start):
        messages += 1
        size += len(message.body)
    return messages, size


def main(namesrv, topic):
    consumer = PullConsumer("bench_wheel")
    consumer.set_namesrv_addr(namesrv)
    consumer.start()
    print("READY", flush=True)
    for line in sys.stdin:
        print("DONE", *read(consumer, topic, *map(int, line.split())), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
