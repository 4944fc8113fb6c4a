"""The rows of ranges of offsets, in raw and in events: of a few queues by a condition, of many by a join."""

from __future__ import annotations

from dataclasses import astuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lake.offsets import Range, quoted

# Spark compares each row with one condition after the other. Above so many, rows are joined with the ranges.
MOST_CONDITIONS = 16
_KEY = ("cluster string", "trace_topic string", "broker string", "queue_id int", "epoch int")


def rows_in(frame: DataFrame, ranges: list[Range]) -> DataFrame:
    """The rows of `frame` (raw or events) in the ranges; no rows for no ranges."""
    if len(ranges) <= MOST_CONDITIONS:
        return frame.where(" or ".join(f"({each.condition()})" for each in ranges) or "false")
    rows = [(*astuple(each.queue), each.epoch, each.start, each.end) for each in ranges]
    bounds = frame.sparkSession.createDataFrame(rows, ", ".join((*_KEY, "first bigint", "beyond bigint")))
    same = [f"t.{name} = of.{name}" for name, _ in map(str.split, _KEY)]
    within = " and ".join([*same, "t.queue_offset >= of.first", "t.queue_offset < of.beyond"])
    return (
        frame.where(covering(ranges))
        .alias("t")
        .join(F.broadcast(bounds.alias("of")), F.expr(within), "left_semi")
    )


def covering(ranges: list[Range], prefix: str = "") -> str:
    """SQL condition that holds for all rows of the ranges, and for others; in literals, so that Iceberg prunes files."""
    names = ("cluster", "trace_topic", "broker")
    values = {name: sorted({quoted(getattr(each.queue, name)) for each in ranges}) for name in names}
    first, last = min(each.start for each in ranges), max(each.end for each in ranges) - 1
    return " and ".join(
        [
            *(f"{prefix}{name} in ({', '.join(found)})" for name, found in values.items()),
            f"{prefix}queue_offset between {first} and {last}",
        ]
    )
