"""Decode trace messages into records, with native Spark expressions only.

A body is cut into pieces (`pieces`), each piece gets the layout that it can have (`matching`), its fields are read as
values of their kinds (`values`), and what comes out are the columns of `events.trace_records`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.settings import Limits
from spark_jobs.trace.layouts import COLUMNS, CONTEXT_CODES, FIELD_SEPARATOR, LAYOUTS, MSG_TYPES
from spark_jobs.trace.matching import field, lookup, matched
from spark_jobs.trace.pieces import records, with_pieces
from spark_jobs.trace.values import TYPED, judged

DECODER_VERSION = "4"

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
_VALID = "invalid_reason is null"
_VALID_ID = f"if({_VALID}, layout_id, null)"


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
    found = judged(matched(records(with_pieces(bodies, _OF_MESSAGE), _OF_MESSAGE)))
    return _output(_compiled_apart(found), limits or Limits())


def _compiled_apart(frame: DataFrame) -> DataFrame:
    """The same rows; what comes next is a method of its own in the code that Spark generates.

    Spark fuses all these steps, and where it makes one method of them that is above some size, the JVM's compiler gives up: it is
    interpreted, several times slower. Only the operator above a generator gets a method of its own, so each row is run
    through one that gives it back once. The columns are the method's arguments, two each. Of more than some fifty
    the JVM's optimizing compiler takes neither that method nor the one that calls it; hence what is text in the end is
    looked up after this, not carried through it.
    """
    return frame.select("*", F.explode(F.array(F.lit(0))).alias("once"))


def _output(judged: DataFrame, limits: Limits) -> DataFrame:
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
        "raw": f"if({_VALID}, null, coalesce(torn, cast(array_join(fields, '{FIELD_SEPARATOR}') as binary)))",
    }
    return judged.selectExpr(*[f"{values.get(name, name)} as {name}" for name in OUTPUT])


def _if_valid(value: str) -> str:
    return f"if({_VALID}, {value}, null)"


def _suspect(event_ms: str, limits: Limits) -> str:
    """True where the time is outside store_time - past ... + ahead; NULL where there is none.

    In milliseconds: intervals of days would be added by the calendar of the session's time zone.
    """
    past, ahead = limits.event_time_past_days * 86_400_000, limits.event_time_ahead_seconds * 1000
    outside = f"{event_ms} - unix_millis(store_time) not between -{past} and {ahead}"
    return f"if(event_time is not null, coalesce({outside}, true), null)"


def _named(names: tuple[str, ...], number: str) -> str:
    """The name of a wire number, or the number itself as text where it has none."""
    small = f"if({number} < {len(names)}, cast({number} as int), null)"
    return f"coalesce({lookup(names, small)}, cast({number} as string))"
