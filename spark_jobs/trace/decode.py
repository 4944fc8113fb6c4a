"""Decode trace messages into records, with native Spark expressions only.

A body is split into pieces (`pieces`), each piece is matched to a layout (`matching`), its fields are parsed by kind
(`values`), and the result has the columns of `events.trace_records`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lake.tables import EVENTS, RAW, TRACE_MESSAGE_KEY
from spark_jobs.settings import Limits
from spark_jobs.trace.layouts import COLUMNS, CONTEXT_CODES, FIELD_SEPARATOR, LAYOUTS, MSG_TYPES
from spark_jobs.trace.matching import field, lookup, with_layout
from spark_jobs.trace.pieces import records, with_pieces
from spark_jobs.trace.values import TYPED, with_values

DECODER_VERSION = "4"

_ADDED_BY_MERGE = ("decoder_version", "change_seq")
OUTPUT = [name for name in EVENTS.column_names if name not in _ADDED_BY_MERGE]
_OF_MESSAGE = (*TRACE_MESSAGE_KEY, "store_time", "born_host")

# The end of the year 9999, the maximum of Python; timestamp_millis overflows far above it.
_LAST_MS = 253402300799999
_VALID = "invalid_reason is null"
_VALID_ID = f"if({_VALID}, layout_id, null)"


def decode(messages: DataFrame, limits: Limits | None = None) -> DataFrame:
    """Turn trace messages into trace records.

    Args:
        messages: columns of `raw.trace_messages`; only `cluster, trace_topic, broker, queue_id, queue_offset,
            store_time, born_host, body` are required, missing ones are NULL.
        limits: how far `event_time` may be from `store_time`; the defaults when None.

    Returns:
        The columns of `events.trace_records` except `decoder_version` and `change_seq`, one row per record. Each record
        of a body becomes exactly one row, valid or `Invalid` with `invalid_reason` and `raw`; a message with
        `body_error` becomes one Invalid row. An empty piece between two separators is not a record.
    """
    missing = {c.name: F.lit(None).cast(c.type) for c in RAW.columns if c.name not in messages.columns}
    bodies = messages.withColumns(missing).withColumn("body", F.col("body").cast("binary"))
    found = with_values(with_layout(records(with_pieces(bodies, _OF_MESSAGE), _OF_MESSAGE)))
    return _output(_in_separate_method(found), limits or Limits())


def _in_separate_method(frame: DataFrame) -> DataFrame:
    """The same rows; the operators after it get a separate method in the code that Spark generates.

    Spark fuses all operators into one method. Above a certain size the JVM does not compile it but interprets it,
    several times slower. Only the operator above a generator gets a separate method, so each row passes a generator that
    returns it once. Each column becomes two arguments of that method. With more than about fifty the JVM's optimizing
    compiler compiles neither that method nor its caller; therefore text columns are looked up after this step.
    """
    return frame.select("*", F.explode(F.array(F.lit(0))).alias("once"))


def _output(parsed: DataFrame, limits: Limits) -> DataFrame:
    """The columns of `events.trace_records`; those of an Invalid record are NULL."""
    event_ms = f"if({_VALID} and event_time <= {_LAST_MS}, event_time, null)"
    values = {column: _if_valid(field(column)) for column in COLUMNS}
    values |= {column: _if_valid(column) for column in TYPED}
    values |= {
        "record_type": f"coalesce({lookup([la.record_type for la in LAYOUTS], _VALID_ID)}, 'Invalid')",
        "layout": lookup([la.name for la in LAYOUTS], _VALID_ID),
        "event_time": f"timestamp_millis({event_ms})",
        "event_time_suspect": _if_valid(_suspect(event_ms, limits)),
        "msg_type": _if_valid(_named(MSG_TYPES, "msg_type")),
        "context_code": _if_valid(_named(CONTEXT_CODES, "context_code")),
        "raw": f"if({_VALID}, null, coalesce(raw_bytes, cast(array_join(fields, '{FIELD_SEPARATOR}') as binary)))",
    }
    return parsed.selectExpr(*[f"{values.get(name, name)} as {name}" for name in OUTPUT])


def _if_valid(value: str) -> str:
    return f"if({_VALID}, {value}, null)"


def _suspect(event_ms: str, limits: Limits) -> str:
    """SQL: true if the time is outside of store_time - past ... + ahead; NULL if there is no time.

    In milliseconds, because intervals of days depend on the calendar of the session's time zone.
    """
    past, ahead = limits.event_time_past_days * 86_400_000, limits.event_time_ahead_seconds * 1000
    outside = f"{event_ms} - unix_millis(store_time) not between -{past} and {ahead}"
    return f"if(event_time is not null, coalesce({outside}, true), null)"


def _named(names: tuple[str, ...], number: str) -> str:
    """SQL: the name of a number on the wire, or the number as text if it has no name."""
    small = f"if({number} < {len(names)}, cast({number} as int), null)"
    return f"coalesce({lookup(names, small)}, cast({number} as string))"
