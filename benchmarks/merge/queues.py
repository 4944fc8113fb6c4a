"""`python -m benchmarks.merge.queues`: decode and merge a million records of 1,000 queues, and of 4 queues.

Both are merged into 3 M records of the same queues and day. CPU time is that of the whole JVM, with the audit and the
publication, in a warm session. Exits with 1 if the target is missed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks import targets
from benchmarks.history import CHUNK, CURRENT, chunks, stored
from benchmarks.meter import Cost, Meter
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import head
from spark_jobs.lake.offsets import CommittedOffsets, Position, Queue, Range
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings, load_settings
from spark_jobs.settings_deployment import Spark
from spark_jobs.trace.merge import merge, rows_of

ROUNDS = 5
HISTORY = 3  # chunks
DAY_MS = 1_795_132_800_000  # 2026-11-20 00:00:00 UTC
MANY, FEW = 1_000, 4
AT_MOST = {"merge_1000_vs_4_queues": 1.2}
_console = Console(width=120, highlight=False)


@dataclass(frozen=True)
class Batch:
    """The messages of a cluster that are merged: `ranges` has one range per queue."""

    ranges: list[Range]

    @property
    def positions(self) -> dict[Queue, Position]:
        return {each.queue: Position(next=each.end) for each in self.ranges}


def main() -> int:
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="queues-", dir=home) as scratch:
        settings = Settings(home=Path(scratch), spark=Spark(master="local[2]"))
        spark = session("bench queues", settings)
        tables.ensure(spark)
        batches = {queues: _prepare(spark, settings, queues) for queues in (MANY, FEW)}
        costs = _race(spark, settings, batches)
        spark.stop()
    cpu = {queues: statistics.median(cost.cpu for cost in each) for queues, each in costs.items()}
    return targets.report(_console, {"merge_1000_vs_4_queues": cpu[MANY] / cpu[FEW]}, AT_MOST)


def _prepare(spark: SparkSession, settings: Settings, queues: int) -> Batch:
    """Write the history of a cluster with so many queues to events, and its batch to raw."""
    old = _spread(chunks(spark, 0, HISTORY), queues)
    rows_of(old, settings.limits, 1).select(*tables.EVENTS.column_names).writeTo(
        tables.EVENTS.full_name
    ).append()
    new = _spread(chunks(spark, HISTORY, HISTORY + 1), queues)
    new.select(*tables.RAW.column_names).writeTo(tables.RAW.full_name).append()
    begin, end = HISTORY * CHUNK, (HISTORY + 1) * CHUNK
    ranges = [
        Range(Queue(f"of-{queues}", CURRENT.trace_topic, CURRENT.broker, number), 0, first, beyond)
        for number in range(queues)
        for first, beyond in [(_below(begin, number, queues), _below(end, number, queues))]
    ]
    return Batch(ranges)


def _spread(found: DataFrame, queues: int) -> DataFrame:
    """The messages as rows of raw, dealt to the queues in turn."""
    number = F.col("queue_offset")
    rows = stored(found, CURRENT, F.lit(DAY_MS) + number % 80_000_000)
    return rows.withColumns(
        {
            "cluster": F.lit(f"of-{queues}"),
            "queue_id": (number % queues).cast("int"),
            "queue_offset": F.floor(number / queues),
        }
    )


def _below(messages: int, number: int, queues: int) -> int:
    """How many of the first so many messages this queue has."""
    return (messages - number + queues - 1) // queues


def _race(spark: SparkSession, settings: Settings, batches: dict[int, Batch]) -> dict[int, list[Cost]]:
    meter, base = Meter(spark), head(settings, tables.EVENTS)
    costs: dict[int, list[Cost]] = {queues: [] for queues in batches}
    names = list(batches)
    for turn in range(-2, ROUNDS):
        for queues in names[turn % 2 :] + names[: turn % 2]:
            spark.sql(f"call lake.system.set_current_snapshot('{tables.EVENTS.full_name}', {base})")
            cost = meter.cost(partial(_merge, spark, settings, batches[queues], base))
            if turn >= 0:
                costs[queues].append(cost)
        if turn >= 0:
            spent = ", ".join(f"{queues} queues {each[-1].cpu:.1f} s" for queues, each in costs.items())
            _console.print(f"round {turn + 1}: {spent}")
    return costs


def _merge(spark: SparkSession, settings: Settings, batch: Batch, base: int | None) -> None:
    events = CommittedOffsets({}, 1, base)
    merged = merge(spark, batch.ranges, batch.positions, events, settings.limits, uuid.uuid4().hex)
    assert merged.records > 900_000, merged


if __name__ == "__main__":
    sys.exit(main())
