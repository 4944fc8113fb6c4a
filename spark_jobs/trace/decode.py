"""Decode trace messages into records, with native Spark expressions only.

How a record is matched: its type, field count and whether its last field is empty give one
candidate layout, looked up in a literal array; a column is the field at that layout's position,
looked up likewise; the record is valid if each typed field that the layout has is of its kind.
One lookup in place of one CASE per layout keeps the generated method below the size (8,000 bytes)
above which the JVM never compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence

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

DECODER_VERSION = "2"

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
_NUMBER = f"-?[0-9]+(?:[.][0-9]+)?{FIELD_SEPARATOR}"
_INTEGER = f"[0-9]+{FIELD_SEPARATOR}"
_BOOLEAN = f"(?:true|false){FIELD_SEPARATOR}"
_SUB_AFTER = f"SubAfter{FIELD_SEPARATOR}{_FIELD}{_FIELD}{_NUMBER}{_BOOLEAN}{_FIELD}"
_SUB_BEFORE = f"SubBefore{FIELD_SEPARATOR}{_INTEGER}{_FIELD}{_FIELD}{_FIELD}{_FIELD}{_INTEGER}{_FIELD}"
# A type token with a field's separator on either side, by the first letters of the types.
_GUARD = (
    f"{FIELD_SEPARATOR}[{''.join(sorted({t[0] for t in RECORD_TYPES}))}]"
    f"(?:{'|'.join(sorted({t[1:3] for t in RECORD_TYPES}))})[A-Za-z]*{FIELD_SEPARATOR}"
)
# Complete records with the next one glued on by \x01 where \x02 should be. Complete means that numbers and
# booleans are what they should be, so that a key which spells a type name cuts nothing off.
# - a SubAfter that ends in its code: Java 4.9.5-4.9.8 and 5.1.4-5.3.0 with access channel CLOUD;
# - a SubAfter of 9 fields or a SubBefore of 9, before one more of the same type: pyrocketmq.
_GLUED = (
    f"(?:(?<={RECORD_SEPARATOR})|^|\\G)"
    f"({_SUB_AFTER}[0-9]+(?={FIELD_SEPARATOR}{_TYPE_TOKEN})"
    f"|{_SUB_AFTER}{_INTEGER}[0-9]{{13}}{FIELD_SEPARATOR}[^{FIELD_SEPARATOR}{RECORD_SEPARATOR}]*"
    f"(?={FIELD_SEPARATOR}SubAfter{FIELD_SEPARATOR})"
    f"|{_SUB_BEFORE}[^{FIELD_SEPARATOR}{RECORD_SEPARATOR}]*(?={FIELD_SEPARATOR}SubBefore{FIELD_SEPARATOR}))"
    f"{FIELD_SEPARATOR}"
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
    records = _compiled_apart(_fields(_records(_with_all_columns(messages))))
    return _output(_compiled_apart(_judged(records)), limits or Limits())


def _with_all_columns(messages: DataFrame) -> DataFrame:
    missing = {c.name: F.lit(None).cast(c.type) for c in RAW.columns if c.name not in messages.columns}
    return messages.withColumns(missing).select(
        *_CARRIED, F.col("body").cast("binary").alias("body"), "body_error"
    )


def _pieces(body: Column) -> Column:
    """The body's pieces, one a record; a record that is glued to the one before it is cut off first.

    The guard only has to let every glued body through, and most others not: a search for each type's
    whole name costs several times as much.
    """
    unglued = F.when(body.rlike(_GUARD), F.regexp_replace(body, _GLUED, f"$1{RECORD_SEPARATOR}")).otherwise(
        body
    )
    return F.split(unglued, RECORD_SEPARATOR)


def _records(messages: DataFrame) -> DataFrame:
    """One row a piece of a body: adds `record_index`, `piece` (text; NULL for an unreadable body) and `torn`.

    `torn` has the bytes that the text does not say: of an unreadable body, and of what is not UTF-8.
    """
    unreadable = F.array(F.lit(None).cast("string"))
    pieces = F.when(F.col("body_error").isNull(), _pieces(F.col("body").cast("string"))).otherwise(unreadable)
    replaced = F.contains("piece", F.lit("\N{REPLACEMENT CHARACTER}"))
    # One byte a character, so the pieces are the same and nothing is lost.
    latin = F.get(_pieces(F.decode("body", "ISO-8859-1")), F.col("record_index"))
    torn = F.when(F.col("piece").isNull(), F.col("body")).when(replaced, F.encode(latin, "ISO-8859-1"))
    return (
        messages.select("*", F.posexplode(pieces).alias("record_index", "piece"))
        .where("piece is null or piece != ''")
        .select(*_CARRIED, "body_error", "record_index", "piece", torn.alias("torn"))
    )


def _compiled_apart(frame: DataFrame) -> DataFrame:
    """The same rows; what comes next is a generated method of its own.

    Spark makes one method of all that it can fuse. Above some size the JVM's compiler gives up, and the method is
    interpreted, several times slower. A coalesce to more partitions than there can be moves nothing, and
    is not fused.
    """
    return frame.coalesce(2**31 - 1)


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

    type_last = [layout for layout in LAYOUTS if layout.type_last]
    last_field = F.get("fields", F.size("fields") - 1)
    by_last_field = F.when(
        F.size("fields") == type_last[0].count,
        F.coalesce(*[F.when(last_field == each.record_type, index(each.name)) for each in type_last]),
    )
    return (
        F.when(type_id < 0, by_last_field)
        # Two clients put the client host in different places.
        .when((by_count == index("pub_15")) & ~_matches(9, Kind.INTEGER), index("pub_15_rmqsdk"))
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
_TYPED = [column for column in COLUMNS if KINDS[column] is not Kind.TEXT]
_LONG_DIGITS = 19


def _fields(records: DataFrame) -> DataFrame:
    """The record's `fields` (text) in place of the piece, and its `layout_id`; NULL where no layout has such."""
    with_fields = records.withColumn("fields", F.split("piece", FIELD_SEPARATOR)).drop("piece")
    return with_fields.withColumn("layout_id", _candidate_id())


def _field(column: str, layout_id: Column) -> Column:
    """The field that fills the column, as text; NULL where the layout has none, or there is no layout."""
    return F.get("fields", _lookup([layout.position(column) for layout in LAYOUTS], layout_id))


def _whole(text: Column) -> Column:
    """The text as a bigint, as far as Spark reads one: it allows a sign and space around it."""
    return text.try_cast("bigint")


def _plain(text: Column, whole: Column) -> Column:
    """Whether the text is the shortest way to write the number: no sign, no space, no leading zero.

    It is if the number has as many digits as the text has bytes. That costs a tenth of a regular
    expression, and nearly every number on the wire is plain.
    """
    lows = [None, 0, *[10**digits for digits in range(1, _LONG_DIGITS)]]
    highs = [None, *[10**digits - 1 for digits in range(1, _LONG_DIGITS)], 2**63 - 1]
    size = F.octet_length(text)
    return (whole >= _lookup(lows, size)) & (whole <= _lookup(highs, size))


def _parsed(column: str) -> Column:
    """The typed field as a value of its kind; NULL if it is absent or not of that kind.

    The patterns of `_PATTERNS` are the rule; what is tested before them is a quick way to a yes.
    """
    wire, whole, kind = F.col(f"wire_{column}"), F.col(f"whole_{column}"), KINDS[column]
    fits = wire.rlike(_PATTERNS[kind])
    match kind:
        case Kind.INTEGER | Kind.TIME:
            return F.when(_plain(wire, whole) | fits, whole)
        case Kind.NUMBER:
            return F.when(_plain(wire, whole), whole.cast("double")).when(fits, wire.try_cast("double"))
        case Kind.BOOLEAN:
            return F.when(wire == "true", F.lit(True)).when(fits, wire.try_cast("boolean"))
        case _:
            return F.when(fits, wire)


def _judged(records: DataFrame) -> DataFrame:
    """Adds the typed columns, `invalid_reason`, and `valid_id`, which is `layout_id` of a valid record."""
    kept = (*_CARRIED, "body_error", "record_index", "torn", "layout_id", "fields")
    wire = records.select(
        *kept, *[_field(column, F.col("layout_id")).alias(f"wire_{column}") for column in _TYPED]
    )
    numbers = [c for c in _TYPED if KINDS[c] in (Kind.INTEGER, Kind.TIME, Kind.NUMBER)]
    whole = wire.withColumns({f"whole_{column}": _whole(F.col(f"wire_{column}")) for column in numbers})
    parsed = whole.select(
        *kept,
        *[_parsed(column).alias(column) for column in _TYPED],
        *[F.col(f"wire_{column}").isNotNull().alias(f"has_{column}") for column in _TYPED],
    )
    judged = parsed.withColumn("invalid_reason", _reason())
    valid_id = F.when(F.col("invalid_reason").isNull(), F.col("layout_id"))
    return judged.select(
        *_CARRIED, "record_index", "torn", "fields", *_TYPED, "invalid_reason", valid_id.alias("valid_id")
    )


def _output(judged: DataFrame, limits: Limits) -> DataFrame:
    """The columns of `events.trace_records`; those of an Invalid record are NULL."""
    valid, valid_id = F.col("invalid_reason").isNull(), F.col("valid_id")
    event_ms = F.when(valid & (F.col("event_time") <= _LAST_MS), F.col("event_time"))
    values = {column: _field(column, valid_id) for column in COLUMNS}
    values |= {column: F.when(valid, F.col(column)) for column in _TYPED}
    values |= {
        "record_type": F.coalesce(_lookup([la.record_type for la in LAYOUTS], valid_id), F.lit("Invalid")),
        "layout": _lookup([la.name for la in LAYOUTS], valid_id),
        "event_time": F.timestamp_millis(event_ms),
        "event_time_suspect": F.when(valid, _suspect(event_ms, limits)),
        "msg_type": _named(MSG_TYPES, values["msg_type"]),
        "context_code": _named(CONTEXT_CODES, values["context_code"]),
        "raw": F.when(~valid, F.coalesce("torn", F.array_join("fields", FIELD_SEPARATOR).cast("binary"))),
    }
    return judged.select(*[values.get(name, F.col(name)).alias(name) for name in OUTPUT])


def _reason() -> Column:
    """What is wrong with a record, the first thing found; NULL for a valid one."""
    exactly_once = F.lit(LAYOUTS.index(BY_NAME["sub_after_8_ons"]))
    bad_status = (F.col("layout_id") == exactly_once) & ~_matches(7, Kind.INTEGER)
    known_type = F.get("fields", F.lit(0)).isin(*RECORD_TYPES)
    no_layout = F.col("layout_id").isNull()
    reason = (
        F.when(F.col("body_error").isNotNull(), F.concat(F.lit("body_error:"), "body_error"))
        .when(no_layout & ~known_type, F.lit("unknown_type"))
        .when(no_layout, F.concat(F.lit("field_count:"), F.size("fields").cast("string")))
    )
    for column in _TYPED:
        is_bad = F.col(f"has_{column}") & F.col(column).isNull()
        reason = reason.when(is_bad, F.lit(f"bad_{KINDS[column]}:{WIRE_NAMES[column]}"))
    return reason.when(bad_status, F.lit("bad_integer:exactlyOnceStatus"))


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
    return F.coalesce(_lookup(names, F.when(number < len(names), number).cast("int")), number.cast("string"))
