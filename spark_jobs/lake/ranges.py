"""The rows of ranges of offsets, in raw and in events: of a few queues by a condition, of many by a join."""

from __future__ import annotations

from dataclasses import astuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lake.offsets import Range, quoted

# Spark compares each row with one condition after the other. Above so many, rows are joined with the ranges.
MOST_CONDITIONS = 16
RANGE = "range_number"
_KEY = ("cluster string", "trace_topic string", "broker string", "queue_id int", "epoch int")


def rows_in(frame: DataFrame, ranges: list[Range]) -> DataFrame:
    """The rows of `frame` (raw or events) in the ranges; no rows for no ranges."""
    if len(ranges) <= MOST_CONDITIONS:
        return frame.where(" or ".join(f"({each.condition()})" for each in ranges) or "false")
    return _joined(frame, ranges, "left_semi")


def numbered_rows_in(frame: DataFrame, ranges: list[Range]) -> DataFrame:
    """`rows_in` disjoint ranges, with the column `range_number` (int): the index of the row's range.

    To group by it and by the offset takes less time than by the columns of the key, of which three are strings.
    """
    if len(ranges) <= MOST_CONDITIONS:
        number = F.lit(max(0, len(ranges) - 1))
        for index, each in enumerate(ranges[:-1]):
            number = F.when(F.expr(each.condition()), index).otherwise(number)
        return rows_in(frame, ranges).withColumn(RANGE, number)
    return _joined(frame, ranges, "inner").selectExpr("t.*", f"of.{RANGE}")


def _joined(frame: DataFrame, ranges: list[Range], how: str) -> DataFrame:
    """Rows `t` joined with the ranges `of`."""
    rows = [
        (*astuple(each.queue), each.epoch, each.start, each.end, number) for number, each in enumerate(ranges)
    ]
    columns = (*_KEY, "first bigint", "beyond bigint", f"{RANGE} int")
    bounds = frame.sparkSession.createDataFrame(rows, ", ".join(columns))
    same = [f"t.{name} = of.{name}" for name, _ in map(str.split, _KEY)]
    within = " and ".join([*same, "t.queue_offset >= of.first", "t.queue_offset < of.beyond"])
    return frame.where(covering(ranges)).alias("t").join(F.broadcast(bounds.alias("of")), F.expr(within), how)


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
