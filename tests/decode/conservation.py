"""The rows of a body spell it: nothing of it is lost, added, doubled or in another order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_jobs.trace.layouts import BY_NAME, COLUMNS, CONTEXT_CODES, FIELDS, MSG_TYPES, RECORD_TYPES, Kind
from tests.decode.drawn import R, S
from tests.decode.model import YEAR_10000_MS, jvm_text

_GLUED_ON = tuple(S + each.encode() + S for each in RECORD_TYPES)
_GLUED_ON_LATE = tuple(S + each for each in _GLUED_ON)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = {"msg_type": MSG_TYPES, "context_code": CONTEXT_CODES}


def lost(body: bytes, rows: Sequence[dict[str, Any]]) -> str | None:
    """What is wrong with the rows as an account of the body; None if they are all of it.

    An Invalid row stands for its bytes; a valid one for the fields of its layout, each with the row's value.
    Between two records stands the end of a record, or a separator of fields where the next one is glued on; a record
    may have a separator after its last field. What is not UTF-8 is in a valid row as the JVM replaces it.
    """
    at = index = 0
    for row in rows:
        while body.startswith(R, at):  # an empty piece has a place and no row
            at, index = at + 1, index + 1
        if row["record_index"] != index:
            return f"the record at byte {at} has place {index}, not {row['record_index']}"
        end = body.find(R, at)
        piece = body[at : end if end >= 0 else len(body)]
        size = _size(row, piece)
        if size is None:
            return f"{piece!r} is not what the row says: {row}"
        rest = piece[size:]
        if row["layout"] and (rest == S or rest.startswith(_GLUED_ON_LATE)):  # one after the last field
            size, rest = size + 1, rest[1:]
        at += size
        if rest.startswith(_GLUED_ON):
            at, index = at + 1, index + 1
        elif rest:
            return f"no row has {rest!r}"
    return f"no row has {body[at:]!r}" if body[at:].strip(R) else None


def _size(row: dict[str, Any], piece: bytes) -> int | None:
    """How many bytes of the piece the row stands for; None if it is another record."""
    if row["layout"] is None:
        fits = row["record_type"] == "Invalid" and row["invalid_reason"] and piece.startswith(row["raw"])
        return len(row["raw"]) if fits and all(row[column] is None for column in COLUMNS) else None
    layout = BY_NAME[row["layout"]]
    written = piece.split(S)[: layout.count]
    names = [*layout.fields, None] if layout.type_last else [None, *layout.fields]
    expected = dict.fromkeys(COLUMNS)
    for name, data in zip(names, written, strict=False):
        if name and (column := FIELDS[name].column):
            expected[column] = value_of(column, FIELDS[name].kind, jvm_text(data))
    fits = (
        len(written) == layout.count
        and written[names.index(None)].decode("utf-8", "replace") == row["record_type"] == layout.record_type
        and all(row[column] == value for column, value in expected.items())
        and row["invalid_reason"] is None is row["raw"]
    )
    return len(S.join(written)) if fits else None


def value_of(column: str, kind: Kind, text: str) -> Any:
    """What a column must hold where the wire has this text, which is of the field's kind."""
    match kind:
        case Kind.INTEGER:
            number, names = int(text), _NAMES.get(column)
            return number if names is None else names[number] if number < len(names) else str(number)
        case Kind.NUMBER:
            return float(text)
        case Kind.BOOLEAN:
            return text.lower() == "true"
        case Kind.TIME:
            return _EPOCH + timedelta(milliseconds=int(text)) if int(text) < YEAR_10000_MS else None
    return text
