"""The same decoder as a Python UDF over bodies, written to be as quick as plain Python gets.

What it shares with the decoder are the tables, the kinds' patterns and what a complete record is.
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lake.tables import EVENTS
from spark_jobs.settings import Limits
from spark_jobs.trace.layouts import (
    BY_NAME,
    CONTEXT_CODES,
    FIELDS,
    MAX_COUNT,
    MSG_TYPES,
    RECORD_TYPES,
    Kind,
    candidate,
)
from spark_jobs.trace.pieces import COMPLETE
from spark_jobs.trace.values import PATTERNS

_CARRIED = ("cluster", "trace_topic", "broker", "queue_id", "queue_offset", "store_time", "born_host")
_MADE_ELSEWHERE = {*_CARRIED, "epoch", "event_time", "event_time_suspect", "decoder_version", "change_seq"}
_COLUMNS = [column for column in EVENTS.columns if column.name not in _MADE_ELSEWHERE]
SCHEMA = "array<struct<event_ms: bigint, " + ", ".join(f"{c.name}: {c.type}" for c in _COLUMNS) + ">>"
_RECORD_KEY = {"event_ms": 0} | {column.name: place for place, column in enumerate(_COLUMNS, start=1)}
_FITS = {kind: re.compile(pattern.replace("\\z", "\\Z")).search for kind, pattern in PATTERNS.items()}


def _boolean(text: str) -> bool:
    return text == "true" or text.lower() == "true"


_MAKE = {Kind.INTEGER: int, Kind.TIME: int, Kind.NUMBER: float, Kind.BOOLEAN: _boolean}
_NAMES = {"msg_type": MSG_TYPES, "context_code": CONTEXT_CODES}


def _plan(name: str) -> tuple:
    """For a layout: its type, its name, and for each field where it stands, where it goes and what it must be.

    The last is the field that is checked and not kept: where it stands, what it must be, what is said if it is not.
    """
    layout = BY_NAME[name]
    steps, unkept = [], None
    places = {field: place for place, field in enumerate(layout.fields, start=0 if layout.type_last else 1)}
    # The first wrong field of FIELDS is the one that is named.
    for field in sorted(layout.fields, key=list(FIELDS).index):
        place, column = places[field], FIELDS[field].column
        kind = FIELDS[field].kind
        bad = f"bad_{kind}:{field}"
        if column is None:
            unkept = (place, _FITS[kind], bad)
            continue
        target = _RECORD_KEY["event_ms" if column == "event_time" else column]
        steps.append((place, target, _FITS.get(kind), _MAKE.get(kind), _NAMES.get(column), bad))
    return layout.record_type, name, steps, unkept


_PLANS = {name: _plan(name) for name in BY_NAME}
_CANDIDATES = {
    (record_type, count, empty): found.name
    for record_type in RECORD_TYPES
    for count in range(MAX_COUNT + 2)
    for empty in (False, True)
    if (found := candidate(record_type, count, empty))
}
_NEWLIFE = {BY_NAME[name].record_type: name for name in BY_NAME if BY_NAME[name].type_last}
_WIDTH = len(_RECORD_KEY)
_INDEX, _TYPE, _LAYOUT, _REASON, _RAW = (
    _RECORD_KEY[name] for name in ("record_index", "record_type", "layout", "invalid_reason", "raw")
)


def _layout(fields: list[str]) -> str | None:
    name = _CANDIDATES.get((fields[0], len(fields), fields[-1] == ""))
    if name in _DISTINGUISHED:
        return _distinguished(name, fields)
    if name is None and len(fields) == 8 and fields[0] not in RECORD_TYPES:
        return _NEWLIFE.get(fields[-1])
    return name


_DISTINGUISHED = {"pub_15", "sub_after_8_ons", "sub_after_10_rmqsdk"}


def _distinguished(name: str, fields: list[str]) -> str | None:
    """Of those that have the count of another layout, or of one cut short."""
    if name == "pub_15":
        return name if fields[9].isdecimal() else "pub_15_rmqsdk"
    time = fields[7 if name == "sub_after_8_ons" else 1]
    is_time = len(time) == 13 and time.isdecimal()
    return name if is_time == (name == "sub_after_10_rmqsdk") else None


def _record(index: int, piece: str, raw: bytes | None) -> list:
    fields = piece.split("\x01")
    row: list = [None] * _WIDTH
    row[_INDEX] = index
    name = _layout(fields)
    if name is None:
        reason = f"field_count:{len(fields)}" if fields[0] in RECORD_TYPES else "unknown_type"
        return _invalid(index, piece, raw, reason)
    row[_TYPE], row[_LAYOUT], steps, unkept = _PLANS[name]
    for place, target, fits, make, names, bad in steps:
        value = fields[place]
        if fits is not None and not fits(value):
            return _invalid(index, piece, raw, bad)
        if make is not None:
            value = make(value)
            if names is not None:
                value = names[value] if value < len(names) else str(value)
        row[target] = value
    if unkept is not None and not unkept[1](fields[unkept[0]]):
        return _invalid(index, piece, raw, unkept[2])
    return row


def _invalid(index: int, piece: str, raw: bytes | None, reason: str) -> list:
    row: list = [None] * _WIDTH
    row[_INDEX], row[_TYPE], row[_REASON] = index, "Invalid", reason
    row[_RAW] = piece.encode() if raw is None else raw
    return row


_GLUED_TOKENS = tuple(f"\x01{record_type}\x01" for record_type in RECORD_TYPES)
_cut = re.compile(f"(?:(?<=\x02)|^){COMPLETE}").sub


def _pieces(text: str) -> list[str]:
    if any(map(text.__contains__, _GLUED_TOKENS)):
        while (cut := _cut("\\1\x02", text)) != text:
            text = cut
    return text.split("\x02")


def decode(body: bytes) -> list:
    """All records of a body."""
    body = bytes(body)
    text = body.decode("utf-8", "replace")
    pieces = _pieces(text)
    if "\ufffd" in text:
        raw = [piece.encode("latin-1") for piece in _pieces(body.decode("latin-1"))]
        return [_record(index, piece, raw[index]) for index, piece in enumerate(pieces) if piece]
    return [_record(index, piece, None) for index, piece in enumerate(pieces) if piece]


def records(messages: DataFrame) -> DataFrame:
    """What `spark_jobs.trace.decode.decode` gives; what needs the time of the message is left to Spark."""
    limits = Limits()
    found = messages.select(*_CARRIED, F.inline(F.udf(decode, SCHEMA)("body")))
    ahead = F.col("event_ms") - F.unix_millis("store_time")
    late, early = limits.event_time_past_days * 86_400_000, limits.event_time_ahead_seconds * 1000
    return found.withColumns(
        {
            "event_time": F.timestamp_millis("event_ms"),
            "event_time_suspect": (ahead < -late) | (ahead > early),
        }
    ).drop("event_ms")
