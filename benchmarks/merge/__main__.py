"""`make bench-merge`: decode and merge a million records into 20 M, into 2 M, and decode and append them.

CPU time and bytes read are those of the whole JVM, with the audit and the publication. Exits with 1 if a target is
missed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import targets
from benchmarks.history import CHUNK
from benchmarks.merge import history
from benchmarks.merge.history import History
from benchmarks.merge.plain import append
from benchmarks.meter import Cost, Meter
from spark_jobs.lake import tables
from spark_jobs.lake.offsets import CommittedOffsets
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings, load_settings
from spark_jobs.settings_deployment import Spark
from spark_jobs.trace.merge import merge

ROUNDS = 5
AT_MOST = {"merge_vs_append": 2.5, "merge_20m_vs_2m": 1.15, "merge_bytes_20m_vs_2m": 1.15}
INTO_20M, INTO_2M, APPEND = "merge into 20 M", "merge into 2 M", "append to 20 M"
_console = Console(width=120, highlight=False)


def main() -> int:
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="merge-", dir=home) as scratch:
        settings = Settings(home=Path(scratch), spark=Spark(master="local[2]"))
        spark = session("bench merge", settings)
        begin = time.perf_counter()
        made = history.build(spark, settings)
        _console.print(
            f"history of {history.CHUNKS} M records a day, written in {time.perf_counter() - begin:.0f} s; the batch: "
            f"{made.records:,} records in {CHUNK:,} trace messages, {made.merged:,} of them merged "
            "already, 1% ten days back"
        )
        costs = _race(spark, settings, made)
        spark.stop()
    return _judge(costs)


def _race(spark: SparkSession, settings: Settings, made: History) -> dict[str, list[Cost]]:
    meter = Meter(spark)

    def merged_into(snapshot: int) -> None:
        events = CommittedOffsets({}, 1, snapshot)
        run = uuid.uuid4().hex
        found = merge(spark, made.ranges, made.positions, events, settings.limits, run)
        assert found.records == made.records, found

    def appended(snapshot: int) -> None:
        append(spark, rows_in(spark.table(tables.RAW.full_name), made.ranges), settings, snapshot)

    contestants: dict[str, tuple[int, Callable[[int], None]]] = {
        INTO_20M: (made.many, merged_into),
        INTO_2M: (made.few, merged_into),
        APPEND: (made.many, appended),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in contestants}
    names = list(contestants)
    for turn in range(-2, ROUNDS):
        for name in names[turn % 3 :] + names[: turn % 3]:
            snapshot, work = contestants[name]
            spark.sql(f"call lake.system.set_current_snapshot('{tables.EVENTS.full_name}', {snapshot})")
            cost = meter.cost(lambda work=work, snapshot=snapshot: work(snapshot))  # type: ignore[misc]
            if turn >= 0:
                costs[name].append(cost)
        if turn >= 0:
            _console.print(
                f"round {turn + 1}: "
                + ", ".join(f"{name} {each[-1].cpu:.1f} s" for name, each in costs.items())
            )
    return costs


def _judge(costs: dict[str, list[Cost]]) -> int:
    table = Table(title="decode and write a million records", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("how")
    for heading in ("CPU s, median", "min", "max", "MB read", "wall s"):
        table.add_column(heading, justify="right")
    cpu = {name: statistics.median(c.cpu for c in each) for name, each in costs.items()}
    read = {name: statistics.median(c.read for c in each) for name, each in costs.items()}
    for name, each in costs.items():
        seconds = [c.cpu for c in each]
        wall = statistics.median(c.wall for c in each)
        table.add_row(
            name,
            *(f"{s:.1f}" for s in (cpu[name], min(seconds), max(seconds))),
            f"{read[name] / 1e6:.1f}",
            f"{wall:.1f}",
        )
    _console.print(table)
    ratios = {
        "merge_vs_append": cpu[INTO_20M] / cpu[APPEND],
        "merge_20m_vs_2m": cpu[INTO_20M] / cpu[INTO_2M],
        "merge_bytes_20m_vs_2m": read[INTO_20M] / read[INTO_2M],
    }
    return targets.report(_console, ratios, AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
