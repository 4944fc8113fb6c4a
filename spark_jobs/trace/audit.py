"""Compare messages of raw with their records in events: the audit of a merge, and of the integrity checks."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.lake.offsets import Range
from spark_jobs.lake.ranges import RANGE, numbered_rows_in
from spark_jobs.trace.pieces import with_min_records

# One row per message: the range that it is in, and its offset.
_MESSAGE = (RANGE, "queue_offset")


@dataclass(frozen=True)
class Compared:
    """The messages of a range of offsets.

    Attributes:
        range: the range.
        first: offset of the first message in raw; None without one.
        last: offset of the last one.
        rows: number of rows in raw.
        messages: number of distinct offsets in raw.
        records: number of rows in events.
        short: messages with fewer records than `min_records`, which the extraction counted. A glued record
            (`glued.py`) becomes more rows than pieces, so there may be more.
        twice: messages of which a record is stored twice.
        strange: messages of events that raw does not have.
    """

    range: Range
    first: int | None
    last: int | None
    rows: int
    messages: int
    records: int
    short: int
    twice: int
    strange: int

    @property
    def wrong(self) -> int:
        return self.short + self.twice + self.strange


@dataclass(frozen=True)
class Audit:
    """What a merge published and had compared.

    Attributes:
        head: the snapshot of events with the records; None if nothing was merged.
        ranges: the offsets that were merged.
        compared: those of them with messages or records.
    """

    head: int | None = None
    ranges: tuple[Range, ...] = ()
    compared: tuple[Compared, ...] = ()

    @property
    def records(self) -> int:
        return sum(each.records for each in self.compared)


def compare(raw: DataFrame, events: DataFrame, ranges: list[Range]) -> tuple[Compared, ...]:
    """Compare the rows of the ranges, message by message; ranges without a row are left out.

    Args:
        raw: rows of `raw.trace_messages`.
        events: rows of `events.trace_records`.
        ranges: disjoint.
    """
    messages = (
        with_min_records(numbered_rows_in(raw, ranges), _MESSAGE)
        .groupBy(*_MESSAGE)
        .agg(F.count("*").alias("rows"), F.max("min_records").alias("min_records"))
    )
    records = (
        numbered_rows_in(events, ranges)
        .groupBy(*_MESSAGE, _chunk().alias("chunk"))
        .agg(F.count("*").alias("records"), _distinct_in_chunk().alias("distinct"))
        .groupBy(*_MESSAGE)
        .agg(F.sum("records").alias("records"), F.sum("distinct").alias("distinct"))
    )
    in_raw = F.col("rows").isNotNull()
    found = (
        messages.join(records, [*_MESSAGE], "full_outer")
        .groupBy(RANGE)
        .agg(
            F.min(F.when(in_raw, F.col("queue_offset"))).alias("first"),
            F.max(F.when(in_raw, F.col("queue_offset"))).alias("last"),
            F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
            F.count("rows").alias("messages"),
            F.coalesce(F.sum("records"), F.lit(0)).alias("records"),
            F.count_if(F.expr("min_records > coalesce(distinct, 0)")).alias("short"),
            F.count_if(in_raw & F.expr("records > distinct")).alias("twice"),
            F.count_if(~in_raw).alias("strange"),
        )
        .collect()
    )
    numbered = {
        row[RANGE]: {name: value for name, value in row.asDict().items() if name != RANGE} for row in found
    }
    return tuple(Compared(ranges[number], **values) for number, values in sorted(numbered.items()))


def _chunk() -> Column:
    """The number of the 64 record indexes that a record's index is one of, for `_distinct_in_chunk`."""
    return F.expr("record_index div 64")


def _distinct_in_chunk() -> Column:
    """Aggregate: the number of distinct record indexes of the rows of one chunk.

    It needs one row per message and task, where `count(distinct record_index)` would shuffle a row per record.
    """
    return F.bit_count(F.bit_or(F.expr("shiftleft(1L, cast(record_index % 64 as int))")))
