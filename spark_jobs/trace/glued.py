r"""Records that their client did not end with `\x02`, so that `\x01` glues the next record on.

They are split only after a complete record, so that a key that contains a type name splits nothing.
"""

from __future__ import annotations

import re

from spark_jobs.trace.layouts import FIELD_SEPARATOR, NUMBER, RECORD_SEPARATOR, RECORD_TYPES

_TYPE_TOKEN = f"(?:{'|'.join(RECORD_TYPES)}){FIELD_SEPARATOR}"
_TEXT = f"[^{FIELD_SEPARATOR}{RECORD_SEPARATOR}]*"
_FIELD = f"{_TEXT}{FIELD_SEPARATOR}"
_NUMBER = f"{NUMBER}{FIELD_SEPARATOR}"
_INTEGER = f"[0-9]+{FIELD_SEPARATOR}"
_BOOLEAN = f"(?:true|false){FIELD_SEPARATOR}"
_SUB_AFTER = f"SubAfter{FIELD_SEPARATOR}{_FIELD}{_FIELD}{_NUMBER}{_BOOLEAN}{_FIELD}"
_SUB_BEFORE = f"SubBefore{FIELD_SEPARATOR}{_INTEGER}{_FIELD}{_FIELD}{_FIELD}{_FIELD}{_INTEGER}{_FIELD}"
# Complete records, with valid numbers and booleans, after which \x01 instead of \x02 glues the next one on.
# - a SubAfter that ends with its context code: Java 4.9.5-4.9.8 and 5.1.4-5.3.0 with access channel CLOUD;
# - a SubAfter of 9 fields or a SubBefore of 9, before another one of the same type: pyrocketmq.
COMPLETE = (
    f"({_SUB_AFTER}[0-9]+(?={FIELD_SEPARATOR}{_TYPE_TOKEN})"
    f"|{_SUB_AFTER}{_INTEGER}[0-9]{{13}}{FIELD_SEPARATOR}{_TEXT}(?={FIELD_SEPARATOR}SubAfter{FIELD_SEPARATOR})"
    f"|{_SUB_BEFORE}{_TEXT}(?={FIELD_SEPARATOR}SubBefore{FIELD_SEPARATOR}))"
    f"{FIELD_SEPARATOR}"
)
_COMPLETE = re.compile(COMPLETE)


def split(body: str) -> list[str]:
    """The pieces of a body, as `pieces.with_pieces` has them: `record_index` is the index of a piece."""
    found = []
    for piece in body.split(RECORD_SEPARATOR):
        start = 0
        while match := _COMPLETE.match(piece, start):
            found.append(piece[start : match.end() - len(FIELD_SEPARATOR)])
            start = match.end()
        found.append(piece[start:])
    return found
