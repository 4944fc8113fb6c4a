"""How much of a small heap decode needs, over the bodies and over eight times as many, in partitions of one size.

`python -m benchmarks.decode.memory FOLDER` is a process of its own, for a JVM's heap has a size for life. It prints a line
`bodies peak` for each, the most that lived on the heap, in MB.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.lake.session import session
from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Spark
from spark_jobs.trace.decode import decode

HEAP_MB, TIMES = 512, 8


def peaks(folder: Path) -> list[tuple[int, float]]:
    """Bodies decoded and MB of the heap, for the bodies once and `TIMES` times."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.decode.memory", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"decode did not do with a heap of {HEAP_MB} MB:\n{done.stderr[-3000:]}")
    return [(int(bodies), float(peak)) for bodies, peak in map(str.split, done.stdout.splitlines())]


@contextmanager
def _watched(spark: SparkSession) -> Iterator[list[float]]:
    """Within it, what lives on the heap, in MB: what each of many whole collections left."""
    assert spark._jvm is not None
    jvm, left, over = spark._jvm.java.lang, [], threading.Event()
    heap = jvm.management.ManagementFactory.getMemoryMXBean()

    def look() -> None:
        while not over.wait(0.3):
            jvm.System.gc()
            left.append(heap.getHeapMemoryUsage().getUsed() / 1e6)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield left
    finally:
        over.set()
        watcher.join()


def main() -> None:
    folder = Path(sys.argv[1])
    conf = {"spark.sql.files.maxPartitionBytes": "32m"}
    settings = Settings(
        home=folder.parent, spark=Spark(master="local[2]", driver_memory=f"{HEAP_MB}m", conf=conf)
    )
    spark = session("decode memory", settings)
    once = spark.read.parquet(str(folder))
    for times in (1, TIMES):
        messages = reduce(DataFrame.union, [once] * times)
        with _watched(spark) as left:
            decode(messages).write.format("noop").mode("overwrite").save()
        print(messages.count(), max(left))


if __name__ == "__main__":
    main()
