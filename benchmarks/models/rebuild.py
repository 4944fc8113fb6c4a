"""`python -m benchmarks.models.rebuild`: a rebuild over 20 M records, killed once, beside a normal run with a new batch.

A limit changes on which most facts depend. Each job is a process of its own with the default heap. It prints how long each takes,
the longest step, and the peak memory of the rebuild's JVM; and compares the rows of all marts with those of a full refresh.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.history import CHUNK, CURRENT, START, STEP_MS, bodies, chunks, stored
from benchmarks.models import history
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import Position
from spark_jobs.lake.session import session
from spark_jobs.mart_build import branches
from spark_jobs.settings import PROJECT, Settings, load_settings
from spark_jobs.settings_deployment import Spark

CHANGED = {"TRACE_LIMITS__GRACE_SECONDS": "600"}
BATCH = CHUNK // 10
_STEP = re.compile(r"^\[(\d+)/\d+\] (.*): ([\d.]+) s$", re.MULTILINE)
_console = Console(width=120, highlight=False)


@dataclass
class Job:
    """A job as a process; `memory` is the peak of its JVM, bytes."""

    module: str
    environment: dict[str, str]
    log: Path
    arguments: tuple[str, ...] = ()
    begin: float = field(default_factory=time.monotonic)
    memory: int = 0

    def __post_init__(self) -> None:
        with self.log.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.arguments],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait(self, steps: int | None = None) -> float:
        """Until it ends, or has done so many steps; seconds since its start."""
        while self._process.poll() is None and (steps is None or len(self.steps()) < steps):
            for child in psutil.Process(self._process.pid).children():
                if child.name() == "java":
                    self.memory = max(self.memory, child.memory_info().rss)
            time.sleep(0.5)
        assert steps is not None or self._process.returncode == 0, self.log.read_text()[-3000:]
        return time.monotonic() - self.begin

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def steps(self) -> list[tuple[str, float]]:
        """The steps that it has done: models, seconds."""
        return [(what, float(seconds)) for _, what, seconds in _STEP.findall(self.log.read_text())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, default=20, help="records of the lake, in millions")
    millions = parser.parse_args().millions
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rebuild-", dir=home) as scratch:
        _measure(Path(scratch), millions)


def _measure(folder: Path, millions: int) -> None:
    settings = Settings(home=folder / "home", spark=Spark(master="local[2]"))
    environment = os.environ | {"TRACE_HOME": str(settings.home), "PYTHONPATH": str(PROJECT)}

    def job(name: str, *arguments: str, **changed: str) -> Job:
        log = folder / f"{name}-{time.monotonic_ns()}.log"
        return Job(f"spark_jobs.jobs.{name}", environment | changed, log, arguments)

    _append(settings, 0, millions * CHUNK, change_seq=1)
    first = job("marts")
    _console.print(f"{millions} M records: all marts in one run {first.wait():.0f} s")

    killed = job("rebuild", **CHANGED)
    killed.wait(steps=3)
    killed.kill()
    before = killed.steps()
    _console.print(f"a rebuild is killed after {len(before)} steps, {time.monotonic() - killed.begin:.0f} s")

    _append(settings, millions * CHUNK, millions * CHUNK + BATCH, change_seq=2)
    rebuild = job("rebuild", **CHANGED)
    rebuild.wait(steps=1)
    normal = job("marts", **CHANGED)
    _console.print(f"a normal run beside it, {BATCH * 15:,} new records: {normal.wait():.0f} s")
    seconds = rebuild.wait()
    steps = before + rebuild.steps()
    longest = max(steps, key=lambda step: step[1])
    _console.print(
        f"the rebuild goes on: {seconds:.0f} s more, {len(steps)} steps in all; the longest is {longest[1]:.0f} s "
        f"({longest[0]}); its JVM has at most {rebuild.memory / 1e6:,.0f} MB",
        soft_wrap=True,
    )

    rebuilt = _digests(settings)
    again = job("marts", "--full-refresh", **CHANGED)
    _console.print(f"a full refresh in one run: {again.wait():.0f} s")
    different = [table for table, digest in _digests(settings).items() if digest != rebuilt[table]]
    assert not different, different
    _console.print(f"all rows of {len(rebuilt)} tables are those of the full refresh")


def _append(settings: Settings, first: int, end: int, change_seq: int) -> None:
    """Write the trace messages [first, end) of the current queue, a day with a million records at a time."""
    spark = session("bench rebuild", settings)
    tables.ensure(spark)
    positions = {CURRENT: Position(next=end, complete_to=START + end * STEP_MS)}
    for offset in range(first, end, CHUNK):
        last = min(end, offset + CHUNK)
        whole = last - offset == CHUNK
        found = (
            chunks(spark, offset // CHUNK, last // CHUNK) if whole else bodies(spark, CURRENT, offset, last)
        )
        rows = stored(found, CURRENT, START + F.col("queue_offset") * STEP_MS)
        history.append(spark, settings, rows, positions, change_seq)
    spark.stop()


def _digests(settings: Settings) -> dict[str, int]:
    """Each table of the marts to a number that depends on all of its rows."""
    spark = session("bench rebuild", settings)
    found = {table: _digest(spark, table) for table in branches.audited_tables(lake(settings))}
    spark.stop()
    return found


def _digest(spark: SparkSession, table: str) -> int:
    rows = spark.table(f"lake.{table}")
    # Maps cannot be hashed.
    row = rows.select(F.xxhash64(F.to_json(F.struct("*"))).cast("decimal(38,0)").alias("hash"))
    return int(row.agg(F.sum("hash"), F.count("hash")).collect()[0][0] or 0)


if __name__ == "__main__":
    main()
