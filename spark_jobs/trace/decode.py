"""Decode trace messages into records, with native Spark expressions only.

A body is cut into pieces (`pieces`), each piece gets the layout that it can have (`matching`), its fields are read as
values of their kinds (`values`), and what comes out are the columns of `events.trace_records`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.settings import Limits
from spark_jobs.tables import EVENTS, RAW
from spark_jobs.trace.layouts import COLUMNS, CONTEXT_CODES, LAYOUTS, MSG_TYPES
from spark_jobs.trace.matching import lookup, matched
from spark_jobs.trace.pieces import records, with_pieces
from spark_jobs.trace.values import TYPED, judged

DECODER_VERSION = "3"

_MADE_BY_MERGE = ("decoder_version", "change_seq")
OUTPUT = [name for name in EVENTS.column_names if name not in _MADE_BY_MERGE]
_OF_MESSAGE = (
    "cluster",
    "trace_topic",
    "broker",
    "queue_id",
    "epoch",
    "queue_offset",
    "store_time",
    "born_host",
)

# timestamp_millis overflows far above this, and Python cannot hold a later year.
_LAST_MS = 253402300799999


def decode(messages: DataFrame, limits: Limits | None = None) -> DataFrame:
    """Turn trace messages into trace records.

    Args:
        messages: columns of `raw.trace_messages`; only `cluster, trace_topic, broker, queue_id,
            queue_offset, store_time, born_host, body` must be there, others count as NULL.
        limits: how far `event_time` may be from `store_time`; the defaults when None.

    Returns:
        The columns of `events.trace_records` but `decoder_version` and `change_seq`, one row a
        record. Each record of a body becomes exactly one row, valid or `Invalid` with
        `invalid_reason` and `raw`; a message with `body_error` becomes one Invalid row. An empty
        piece between two separators is no record.
    """
    missing = {c.name: F.lit(None).cast(c.type) for c in RAW.columns if c.name not in messages.columns}
    bodies = messages.withColumns(missing).withColumn("body", F.col("body").cast("binary"))
    fields = matched(records(with_pieces(bodies, _OF_MESSAGE), _OF_MESSAGE))
    return _output(judged(_compiled_apart(fields)), limits or Limits())


def _compiled_apart(frame: DataFrame) -> DataFrame:
    """The same rows; what comes next is a method of its own in the code that Spark generates.

    Spark fuses all these steps, and where it makes one method of them that is above some size, the JVM's compiler gives up: it is
    interpreted, several times slower. Only the operator above a generator gets a method of its own and the
    columns as its arguments, so each row is run through one that gives it back once.
    """
    return frame.select("*", F.explode(F.array(F.lit(0))).alias("once"))


def _output(judged: DataFrame, limits: Limits) -> DataFrame:
    """The columns of `events.trace_records`; those of an Invalid record are NULL."""
    valid = F.col("invalid_reason").isNull()
    valid_id = F.when(valid, F.col("layout_id"))
    event_ms = F.when(valid & (F.col("event_time") <= _LAST_MS), F.col("event_time"))
    values = {column: F.col(column) for column in _OF_MESSAGE}
    values |= {column: F.when(valid, F.col(f"wire_{column}")) for column in COLUMNS}
    values |= {column: F.when(valid, F.col(column)) for column in TYPED}
    values |= {
        "record_type": F.coalesce(lookup([la.record_type for la in LAYOUTS], valid_id), F.lit("Invalid")),
        "layout": lookup([la.name for la in LAYOUTS], valid_id),
        "event_time": F.timestamp_millis(event_ms),
        "event_time_suspect": F.when(valid, _suspect(event_ms, limits)),
        "msg_type": F.when(valid, _named(MSG_TYPES, F.col("msg_type"))),
        "context_code": F.when(valid, _named(CONTEXT_CODES, F.col("context_code"))),
        "raw": F.when(~valid, F.coalesce("torn", F.col("piece").cast("binary"))),
    }
    return judged.select(*[values.get(name, F.col(name)).alias(name) for name in OUTPUT])


def _suspect(event_ms: Column, limits: Limits) -> Column:
    """True where the time is outside store_time - past ... + ahead; NULL where there is none.

    In milliseconds: intervals of days would be added by the calendar of the session's time zone.
    """
    ahead = event_ms - F.unix_millis("store_time")
    outside = ~ahead.between(
        -limits.event_time_past_days * 86_400_000, limits.event_time_ahead_seconds * 1000
    )
    return F.when(F.col("event_time").isNotNull(), F.coalesce(outside, F.lit(True)))


def _named(names: tuple[str, ...], number: Column) -> Column:
    """The name of a wire number, or the number itself as text where it has none."""
    return F.coalesce(lookup(names, F.when(number < len(names), number).cast("int")), number.cast("string"))
