"""The tables that the merge benchmark starts from, as snapshots of one: 2 M and 20 M records in the batch's day.

The batch is in raw: a tenth of its messages is merged already, as after a crash, and one in a hundred is of another queue and
ten days older, as after a broker was away. The table has records of that day, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.history import BEHIND, CHUNK, CURRENT, bodies, chunks, stored
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import head
from spark_jobs.lake.offsets import Position, Positions, Range
from spark_jobs.lake.ranges import rows_in
from spark_jobs.settings import Settings
from spark_jobs.trace.merge import rows_of
from spark_jobs.trace.pieces import with_min_records

CHUNKS, FEW = 20, 2
DAY = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp() * 1000)
BACK = timedelta(days=10) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class History:
    """Snapshots of events to start a merge from, and the ranges of raw that it merges.

    Attributes:
        few: with 2 M records in the batch's day.
        many: with 20 M.
        ranges: the batch.
        positions: of raw, after the batch.
        records: in the batch.
        merged: records of the batch that the table has already.
    """

    few: int
    many: int
    ranges: list[Range]
    positions: Positions
    records: int
    merged: int


def build(spark: SparkSession, settings: Settings) -> History:
    """Write the batch to raw and the history to events."""
    tables.ensure(spark)
    end = CHUNKS * CHUNK
    late = CHUNK // 100
    first = end - CHUNK // 10
    merged = chunks(spark, CHUNKS - 1, CHUNKS).where(F.col("queue_offset") >= first)
    new = bodies(spark, CURRENT, end, first + CHUNK - late)
    _append(_of_day(merged.union(new)), tables.RAW)
    _append(_of_day(bodies(spark, BEHIND, CHUNK, CHUNK + late), back=True), tables.RAW)

    _append(_decoded(_of_day(bodies(spark, BEHIND, 0, CHUNK), back=True), settings), tables.EVENTS)
    few = 0
    # The newest first, so that the snapshot with few has those that the batch meets again.
    for number in range(CHUNKS - 1, -1, -1):
        _append(_decoded(_of_day(chunks(spark, number, number + 1)), settings), tables.EVENTS)
        if number == CHUNKS - FEW:
            few = head(settings, tables.EVENTS) or 0
    ranges = [
        Range(CURRENT, 0, first, first + CHUNK - late),
        Range(BEHIND, 0, CHUNK, CHUNK + late),
    ]
    positions = {each.queue: Position(next=each.end) for each in ranges}
    messages = rows_in(spark.table(tables.RAW.full_name), ranges)
    batch = with_min_records(messages, ["queue_offset"]).select(
        F.col("min_records").alias("records"),
        (F.col("queue_offset").between(first, end - 1)).alias("is_merged"),
    )
    ((records, of_merged),) = batch.agg(
        F.sum("records"), F.sum(F.when(F.col("is_merged"), F.col("records")))
    ).collect()
    return History(few, head(settings, tables.EVENTS) or 0, ranges, positions, records, of_merged)


def _append(rows: DataFrame, table: tables.Table) -> None:
    rows.select(*table.column_names).writeTo(table.full_name).append()


def _decoded(messages: DataFrame, settings: Settings) -> DataFrame:
    return rows_of(messages, settings.limits, 1)


def _of_day(found: DataFrame, back: bool = False) -> DataFrame:
    """Bodies as messages of the batch's day, or of the older queue's day, whose store times are spread over it."""
    since = DAY - (BACK if back else 0)
    return stored(found, BEHIND if back else CURRENT, F.lit(since) + F.col("queue_offset") % 80_000_000)
