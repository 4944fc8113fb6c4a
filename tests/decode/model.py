"""The decoder a second time, slow and in plain Python: what `decode` is compared with.

Every rule here is written from what the clients write, none from `decode`. The tables of `layouts` are shared,
because they are data: which fields a client writes in which order, and of what kind each is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from spark_jobs.settings import Limits
from spark_jobs.trace.layouts import (
    BY_NAME,
    CONTEXT_CODES,
    FIELDS,
    LAYOUTS,
    MSG_TYPES,
    RECORD_TYPES,
    Kind,
    Layout,
)

S, R = "\x01", "\x02"
YEAR_10000_MS = 253402300800000
DAY_MS = 86_400_000

_IPV4 = re.compile(r"[0-9]{1,3}([.][0-9]{1,3}){3}(:[0-9]+)?")
_IPV6 = re.compile(r"\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z]+)?\]?")
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_NAMES = {"msg_type": MSG_TYPES, "context_code": CONTEXT_CODES}


def records(body: bytes, stored_ms: int, limits: Limits) -> Iterator[dict[str, Any]]:
    """The rows of a body; a column that is not there is NULL."""
    for index, piece in enumerate(pieces(body)):
        if piece:
            yield {"record_index": index} | _record(piece, stored_ms, limits)


def pieces(body: bytes) -> Iterator[bytes]:
    """The bytes of each record; an empty one has a place and is no record."""
    for piece in body.split(R.encode()):
        fields = piece.split(S.encode())
        while end := _complete(fields):
            yield S.encode().join(fields[:end])
            fields = fields[end:]
        yield S.encode().join(fields)


def _complete(fields: list[bytes]) -> int:
    """How many fields the first record has, if it is complete and another one follows it; else 0.

    Java with access channel CLOUD leaves out the end of a SubAfter, whatever comes next; pyrocketmq puts
    the separator of fields between records of one type.
    """
    match fields:
        case [b"SubAfter", _, _, cost, success, _, code, *rest]:
            if (
                number(jvm_text(cost)) is None
                or success not in (b"true", b"false")
                or not _digits(jvm_text(code))
            ):
                return 0
            match rest:
                case [next_type, _, *_] if jvm_text(next_type) in RECORD_TYPES:
                    return 7
                case [time, _, b"SubAfter", _, *_] if is_13_digits(jvm_text(time)):
                    return 9
        case [b"SubBefore", time, _, _, _, _, retries, _, _, b"SubBefore", _, *_]:
            if _digits(jvm_text(time)) and _digits(jvm_text(retries)):
                return 9
    return 0


def _record(piece: bytes, stored_ms: int, limits: Limits) -> dict[str, Any]:
    fields = jvm_text(piece).split(S)
    layout = layout_of(fields)
    if layout is None:
        known = fields[0] in RECORD_TYPES
        return _invalid(piece, f"field_count:{len(fields)}" if known else "unknown_type")
    texts = dict(zip(layout.fields, fields[0 if layout.type_last else 1 :], strict=False))
    row: dict[str, Any] = {"record_type": layout.record_type, "layout": layout.name}
    for name, (column, kind) in _IN_ORDER.items():
        if name not in texts:
            continue
        text = texts[name]
        value = _VALUE[kind](text)
        if column is None:  # checked, not kept: no number is too large for it
            value = _digits(text) or None
        if value is None:
            return _invalid(piece, f"bad_{kind}:{name}")
        if column in _NAMES:
            names = _NAMES[column]
            value = names[value] if value < len(names) else str(value)
        if column == "event_time":
            ahead = value - stored_ms
            late = ahead < -limits.event_time_past_days * DAY_MS
            row["event_time_suspect"] = late or ahead > limits.event_time_ahead_seconds * 1000
            value = value * 1000 if value < YEAR_10000_MS else None  # microseconds
        if column:
            row[column] = value
    return row


def _invalid(piece: bytes, reason: str) -> dict[str, Any]:
    return {"record_type": "Invalid", "invalid_reason": reason, "raw": piece}


def layout_of(fields: list[str]) -> Layout | None:
    """The layout by type, count, and where two have the same count by what tells them apart."""
    if fields[0] not in RECORD_TYPES:
        return _TYPE_LAST.get((fields[-1], len(fields)))
    # A separator after the last field is not a field more; a last field may also be empty, if it is text.
    for count in (len(fields), len(fields) - 1) if not fields[-1] else (len(fields),):
        last_is_empty = count == len(fields) and not fields[-1]
        for layout in _TYPE_FIRST.get((fields[0], count), ()):
            if not (last_is_empty and FIELDS[layout.fields[-1]].kind is not Kind.TEXT) and _is(
                layout, fields
            ):
                return layout
    return None


def _is(layout: Layout, fields: list[str]) -> bool:
    match layout.name:
        case "pub_15":
            return _digits(fields[9])
        case "pub_15_rmqsdk":
            return not _digits(fields[9])
        case "sub_after_8_ons":  # with a time there it is a sub_after_9 that was cut short
            return not is_13_digits(fields[7])
        case "sub_after_9" if len(fields) == 9 and not fields[8]:  # or an ONS and a separator after it
            return is_13_digits(fields[7])
        case "sub_after_10_rmqsdk":
            return is_13_digits(fields[1])
    return True


def jvm_text(data: bytes) -> str:
    """As the JVM reads UTF-8: a surrogate is one character that is not, in Python it is three."""
    return _SURROGATE.sub("\ufffd".encode(), data).decode("utf-8", "replace")


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def is_13_digits(text: str) -> bool:
    return len(text) == 13 and _digits(text)


def integer(text: str) -> int | None:
    """Digits only, and no more than a bigint holds."""
    if not _digits(text) or len(text.lstrip("0")) > 19:
        return None
    value = int(text.lstrip("0") or "0")
    return value if value < 2**63 else None


def number(text: str) -> float | None:
    """A minus, digits, and a fraction; no exponent, no plus, no space; no more than 308 digits, which a double holds."""
    whole, point, fraction = text.removeprefix("-").partition(".")
    fits = _digits(whole) and len(whole) <= 308 and (_digits(fraction) or not point)
    return float(text) if fits else None


def boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def store_host(text: str) -> str | None:
    """`host:port`, `null` or empty."""
    host, _, port = text.rpartition(":")
    fits = text in ("", "null") or (host and _digits(port))
    return text if fits else None


def client_host(text: str) -> str | None:
    """An IP address, with or without `@` and something, such as a process id; pyrocketmq writes a port."""
    address, _, _ = text.partition("@")
    return text if _IPV4.fullmatch(address) or _IPV6.fullmatch(address) else None


_VALUE = {
    Kind.TEXT: str,
    Kind.INTEGER: integer,
    Kind.TIME: integer,
    Kind.NUMBER: number,
    Kind.BOOLEAN: boolean,
    Kind.STORE_HOST: store_host,
    Kind.CLIENT_HOST: client_host,
}
# Of several wrong fields the first one in the table is named, and no text is wrong.
_IN_ORDER = {name: (field.column, field.kind) for name, field in FIELDS.items()}
_TYPE_LAST = {(la.record_type, la.count): la for la in LAYOUTS if la.type_last}
_TYPE_FIRST: dict[tuple[str, int], list[Layout]] = {}
for _layout in BY_NAME.values():
    if not _layout.type_last:
        _TYPE_FIRST.setdefault((_layout.record_type, _layout.count), []).append(_layout)
