"""What a piece of work costs the driver's JVM, which in local mode does all of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Cost:
    """Of one run: CPU seconds of the JVM, bytes that it read from files, seconds on the clock."""

    cpu: float
    read: int
    wall: float


class Meter:
    """Reads `/proc`; bytes are those that the kernel counts: Spark's own metric leaves out what Parquet reads in vectors."""

    def __init__(self, spark: SparkSession):
        assert spark._jvm is not None
        self._process = Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}")

    def _now(self) -> tuple[float, int]:
        stat = (self._process / "stat").read_text().rsplit(")", 1)[1].split()
        io = dict(line.split(": ") for line in (self._process / "io").read_text().splitlines())
        return (int(stat[11]) + int(stat[12])) / 100, int(io["rchar"])

    def cost(self, work: Callable[[], object]) -> Cost:
        time.sleep(1)  # the JVM's compilers and collector finish what the run before left them
        cpu, read = self._now()
        begin = time.perf_counter()
        work()
        wall = time.perf_counter() - begin
        time.sleep(1)
        cpu_after, read_after = self._now()
        return Cost(cpu_after - cpu, read_after - read, wall)
