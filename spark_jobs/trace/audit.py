"""Compare messages of raw with their records in events: the audit of a merge, and of the integrity checks."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.lake.offsets import Range
from spark_jobs.lake.ranges import RANGE, numbered_rows_in
from spark_jobs.trace.pieces import with_min_records

# The key of a message within the ranges.
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
        twice: messages of raw of which a record is stored twice.
        strange: messages with records, which raw does not have, or has with a body without records.
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
    """The result of a merge: what it published, and what its audit found.

    Attributes:
        head: the snapshot of events that it published; None if nothing was.
        ranges: the offsets that were compared; none for a merge without messages.
        compared: those of them with messages or records.
        raw_head: the snapshot of raw that it was planned from, if that is known.
    """

    head: int | None = None
    ranges: tuple[Range, ...] = ()
    compared: tuple[Compared, ...] = ()
    raw_head: int | None = None

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
        .agg(F.count("*").alias("records"), _distinct_in_chunk().alias("positions"))
        .groupBy(*_MESSAGE)
        .agg(F.sum("records").alias("records"), F.sum("positions").alias("positions"))
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
            F.count_if(F.expr("min_records > coalesce(positions, 0)")).alias("short"),
            F.count_if(in_raw & F.expr("records > positions")).alias("twice"),
            F.count_if(~in_raw | F.expr("min_records = 0 and records > 0")).alias("strange"),
        )
        .collect()
    )
    return tuple(Compared(ranges[number], *values) for number, *values in sorted(found))


def _chunk() -> Column:
    """The number of the 64 record indexes that a record's index is one of, for `_distinct_in_chunk`."""
    return F.expr("record_index div 64")


def _distinct_in_chunk() -> Column:
    """Aggregate: the number of distinct record indexes of the rows of one chunk.

    It needs one row per message and task, where `count(distinct record_index)` would shuffle a row per record.
    """
    return F.bit_count(F.bit_or(F.expr("shiftleft(1L, cast(record_index % 64 as int))")))
