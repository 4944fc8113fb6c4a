"""Decode trace messages into records, with native Spark expressions only.

How a record is matched: its type, field count and whether its last field is empty give one
candidate layout, looked up in a literal array; a column is the field at that layout's position,
looked up likewise; the record is valid if each typed field that the layout has is of its kind.
One lookup in place of one CASE per layout keeps the generated method below the size (8,000 bytes)
above which the JVM never compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.settings import Limits
from spark_jobs.tables import EVENTS, RAW
from spark_jobs.trace.layouts import (
    BY_NAME,
    COLUMNS,
    CONTEXT_CODES,
    FIELD_SEPARATOR,
    KINDS,
    LAYOUTS,
    MAX_COUNT,
    MSG_TYPES,
    RECORD_SEPARATOR,
    RECORD_TYPES,
    WIRE_NAMES,
    Kind,
    candidate,
)

DECODER_VERSION = "1"

_MADE_BY_MERGE = ("decoder_version", "change_seq")
OUTPUT = [name for name in EVENTS.column_names if name not in _MADE_BY_MERGE]
_CARRIED = (
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

_TYPE_TOKEN = f"(?:{'|'.join(RECORD_TYPES)}){FIELD_SEPARATOR}"
_FIELD = f"[^{FIELD_SEPARATOR}{RECORD_SEPARATOR}]*{FIELD_SEPARATOR}"
# A complete SubAfter that ends in its code, with the next record glued on: Java 4.9.5-4.9.8 and
# 5.1.4-5.3.0 with access channel CLOUD leave out the \x02. Complete means that cost, success and
# code are what they should be, so that a key which spells a type name cuts nothing off.
_GLUED = (
    f"(?:(?<={RECORD_SEPARATOR})|^|\\G)"
    f"(SubAfter{FIELD_SEPARATOR}{_FIELD}{_FIELD}-?[0-9.]+{FIELD_SEPARATOR}(?:true|false){FIELD_SEPARATOR}"
    f"{_FIELD}[0-9]+{FIELD_SEPARATOR})(?={_TYPE_TOKEN})"
)


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
    return _typed(_fields(_records(_with_all_columns(messages))), limits or Limits())


def _with_all_columns(messages: DataFrame) -> DataFrame:
    missing = {c.name: F.lit(None).cast(c.type) for c in RAW.columns if c.name not in messages.columns}
    return messages.withColumns(missing).select(
        *_CARRIED, F.col("body").cast("binary").alias("body"), "body_error"
    )


def _records(messages: DataFrame) -> DataFrame:
    """One row a piece of a body: adds `record_index`, `piece` (text) and `raw` (bytes)."""
    text = F.col("body").cast("string")
    # One byte a character: keeps the bytes of a piece that is not valid UTF-8.
    latin = F.when(~F.is_valid_utf8(text), F.decode("body", "ISO-8859-1"))

    def pieces(body: Column) -> Column:
        suspects = [F.contains(body, F.lit(f"{FIELD_SEPARATOR}{t}{FIELD_SEPARATOR}")) for t in RECORD_TYPES]
        unglued = F.when(
            reduce(or_, suspects), F.regexp_replace(body, _GLUED, f"$1{RECORD_SEPARATOR}")
        ).otherwise(body)
        return F.split(unglued, RECORD_SEPARATOR)

    readable = (
        messages.where("body_error is null")
        .withColumn("latin_pieces", pieces(latin))
        .select("*", F.posexplode(pieces(text)).alias("record_index", "piece"))
        .where("piece != ''")
        .withColumn(
            "raw",
            F.coalesce(
                F.encode(F.get("latin_pieces", F.col("record_index")), "ISO-8859-1"),
                F.col("piece").cast("binary"),
            ),
        )
    )
    unreadable = messages.where("body_error is not null").withColumns(
        {"record_index": F.lit(0), "piece": F.lit(None).cast("string"), "raw": F.col("body")}
    )
    columns = (*_CARRIED, "body_error", "record_index", "piece", "raw")
    return readable.select(*columns).unionByName(unreadable.select(*columns))


def _lookup(values: Sequence[object], index: Column) -> Column:
    """`values[index]`, NULL outside; a constant array, so a lookup costs no branch."""
    return F.get(F.array(*[F.lit(v) for v in values]), index)


def _candidate_id() -> Column:
    """Index in LAYOUTS of the only layout that the record can have; NULL if none."""
    candidates = [
        candidate(record_type, count, empty)
        for record_type in RECORD_TYPES
        for count in range(MAX_COUNT + 2)
        for empty in (False, True)
    ]
    table = [None if layout is None else LAYOUTS.index(layout) for layout in candidates]
    count = F.least(F.size("fields"), F.lit(MAX_COUNT + 1))
    type_id = F.array_position(F.array(*map(F.lit, RECORD_TYPES)), F.get("fields", F.lit(0))) - 1
    last_empty = (F.get("fields", F.size("fields") - 1) == "").cast("int")
    by_count = _lookup(table, ((type_id * (MAX_COUNT + 2) + count) * 2 + last_empty).cast("int"))

    def index(name: str) -> Column:
        return F.lit(LAYOUTS.index(BY_NAME[name]))

    def is_time(position: int) -> Column:
        return F.get("fields", F.lit(position)).rlike("^[0-9]{13}\\z")

    return (
        # Two clients put the client host in different places.
        F.when((by_count == index("pub_15")) & ~_matches(9, Kind.INTEGER), index("pub_15_rmqsdk"))
        # A sub_after_9 that was cut short has its time where ONS has a small number.
        .when((by_count == index("sub_after_8_ons")) & is_time(7), F.lit(None))
        .when(
            (by_count == index("sub_after_9")) & last_empty.cast("boolean") & ~is_time(7),
            index("sub_after_8_ons"),
        )
        .when((by_count == index("sub_after_10_rmqsdk")) & ~is_time(1), F.lit(None))
        .otherwise(by_count)
    )


def _matches(position: int, kind: Kind) -> Column:
    return F.get("fields", F.lit(position)).rlike(_PATTERNS[kind])


_PATTERNS = {
    Kind.INTEGER: "^[0-9]+\\z",
    Kind.TIME: "^[0-9]+\\z",
    Kind.NUMBER: "^-?[0-9]+([.][0-9]+)?\\z",
    Kind.BOOLEAN: "^(?i:true|false)\\z",
    Kind.STORE_HOST: "^(null|.+:[0-9]+)?\\z",
    Kind.CLIENT_HOST: "^([0-9]{1,3}([.][0-9]{1,3}){3}|\\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z]+)?\\]?)(@.*)?\\z",
}
_CASTS = {Kind.INTEGER: "bigint", Kind.TIME: "bigint", Kind.NUMBER: "double", Kind.BOOLEAN: "boolean"}


def _fields(records: DataFrame) -> DataFrame:
    """Adds `layout_id` and one text column a field; NULL where the layout has no such field."""
    with_layout = records.withColumn("fields", F.split("piece", FIELD_SEPARATOR)).withColumn(
        "layout_id", _candidate_id()
    )

    def field(column: str) -> Column:
        positions = [layout.position(column) for layout in LAYOUTS]
        return F.get("fields", _lookup(positions, F.col("layout_id")))

    return with_layout.select(
        *_CARRIED,
        *("body_error", "record_index", "piece", "raw", "layout_id", "fields"),
        *[field(column).alias(f"wire_{column}") for column in COLUMNS],
    )


def _parsed(column: str) -> Column:
    """The field as a value of its kind; NULL if it is absent or not of that kind."""
    wire, kind = F.col(f"wire_{column}"), KINDS[column]
    if kind is Kind.TEXT:
        return wire
    fits = F.when(wire.rlike(_PATTERNS[kind]), wire)
    return fits.try_cast(_CASTS[kind]) if kind in _CASTS else fits


def _typed(records: DataFrame, limits: Limits) -> DataFrame:
    parsed = records.select(
        *_CARRIED,
        *("body_error", "record_index", "raw", "layout_id", "fields"),
        *[_parsed(column).alias(column) for column in COLUMNS],
        *[
            (F.col(f"wire_{column}").isNotNull() & _parsed(column).isNull()).alias(f"bad_{column}")
            for column in COLUMNS
            if KINDS[column] is not Kind.TEXT
        ],
    )
    typed = [column for column in COLUMNS if KINDS[column] is not Kind.TEXT]
    exactly_once = F.lit(LAYOUTS.index(BY_NAME["sub_after_8_ons"]))
    bad_status = (F.col("layout_id") == exactly_once) & ~_matches(7, Kind.INTEGER)
    reason = F.when(F.col("body_error").isNotNull(), F.concat(F.lit("body_error:"), "body_error"))
    reason = reason.when(~F.get("fields", F.lit(0)).isin(*RECORD_TYPES), F.lit("unknown_type")).when(
        F.col("layout_id").isNull(), F.concat(F.lit("field_count:"), F.size("fields").cast("string"))
    )
    for column in typed:
        reason = reason.when(F.col(f"bad_{column}"), F.lit(f"bad_{KINDS[column]}:{WIRE_NAMES[column]}"))
    reason = reason.when(bad_status, F.lit("bad_integer:exactlyOnceStatus"))
    judged = parsed.withColumn("invalid_reason", reason)

    valid = F.col("invalid_reason").isNull()
    event_time = F.when(F.col("event_time") <= _LAST_MS, F.timestamp_millis("event_time"))
    values = {column: F.col(column) for column in COLUMNS} | {
        "record_type": F.when(
            valid, _lookup([la.record_type for la in LAYOUTS], F.col("layout_id"))
        ).otherwise(F.lit("Invalid")),
        "layout": _lookup([la.name for la in LAYOUTS], F.col("layout_id")),
        "event_time": event_time,
        "event_time_suspect": _suspect(event_time, limits),
        "msg_type": _named(MSG_TYPES, F.col("msg_type")),
        "context_code": _named(CONTEXT_CODES, F.col("context_code")),
        "raw": F.when(~valid, F.col("raw")),
    }
    always = {"record_type", "invalid_reason", "raw", "record_index", *_CARRIED}
    return judged.select(
        *[
            (values.get(name, F.col(name)) if name in always else F.when(valid, values[name])).alias(name)
            for name in OUTPUT
        ]
    )


def _suspect(event_time: Column, limits: Limits) -> Column:
    """True where event_time is outside store_time - past ... + ahead; NULL where there is none."""
    past = F.expr(f"store_time - interval {limits.event_time_past_days} days")
    ahead = F.expr(f"store_time + interval {limits.event_time_ahead_seconds} seconds")
    return F.when(
        F.col("event_time").isNotNull(), F.coalesce((event_time < past) | (event_time > ahead), F.lit(True))
    )


def _named(names: tuple[str, ...], number: Column) -> Column:
    """The name of a wire number, or the number itself as text where it has none."""
    return F.coalesce(_lookup(names, F.when(number < len(names), number).cast("int")), number.cast("string"))
