"""Our client as a contestant: ranges of a queue as Arrow record batches, consumed and dropped as Spark does.

`python -m benchmarks.extract.ours NAMESRV TOPIC [BROKER_ADDRESS]` says `READY <round trip in ms>`, then answers each
line `start end` with `DONE messages bytes peak`, where peak is the greatest growth of this process's memory (MB of
RSS) since it was ready. One process, one connection, the data source's default options.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.rocketmq.batches import Origin, record_batches
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.options import Options, Reader
from spark_jobs.rocketmq.route import MessageQueue


def read(client: Reader, queue: MessageQueue, start: int, end: int) -> tuple[int, int]:
    """Read the range; the number of messages and of body bytes."""
    messages = size = 0
    origin = Origin("bench", queue.topic, queue.broker, queue.queue_id, 0)
    for batch in record_batches(client.read(queue, start, end), origin):
        messages += batch.num_rows
        size += _sum(pc.binary_length(batch["body"]))
    return messages, size


def _sum(values: pa.Array) -> int:
    return int(pc.sum(values).as_py())


def round_trip_ms(client: Client, queue: MessageQueue) -> float:
    """The median time of a small request."""
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        client.max_offset(queue)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1000


def memory_mb(name: str) -> float:
    """`VmRSS` (now) or `VmHWM` (the most so far) of this process."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:")
    )
    return int(line.split()[1]) / 1024


def main(namesrv: str, topic: str, address: str = "") -> None:
    with Options.parse({"namesrv": namesrv, "topic": topic}).open_remoting() as client:
        (queue,) = client.queues(topic)
        if address:
            queue = replace(queue, addresses=((0, address),))
        print(f"READY {round_trip_ms(client, queue):.2f}", flush=True)
        before = memory_mb("VmRSS")
        for line in sys.stdin:
            start, end = map(int, line.split())
            messages, size = read(client, queue, start, end)
            print(f"DONE {messages} {size} {memory_mb('VmHWM') - before:.1f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
