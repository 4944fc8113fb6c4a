"""Match the rules: in the bytes of a record, in a row of events, in any other text.

In a record of a known type and number of fields only the fields of the rule's kind are compared, so an erasure of the
group `orders` does not match the topic `orders`. In any other piece of a body (torn, glued) every field is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.erasure.rules import Kind, Rule
from spark_jobs.trace.layouts import FIELD_SEPARATOR, LAYOUTS, RECORD_TYPES

COLUMNS = {
    Kind.KEY: ("keys",),
    Kind.GROUP: ("group_name",),
    Kind.MSG_ID: ("msg_id", "offset_msg_id", "transaction_id"),
}
# One character per byte, so that decoding does not change a body.
BYTES = "ISO-8859-1"
_SEPARATORS = {Kind.KEY: " ", Kind.MSG_ID: ","}


def in_text(rules: Sequence[Rule], kind: Kind, text: Column, charset: str = "UTF-8") -> Column:
    """Whether a text in a field of the kind matches a rule of the kind; False for NULL.

    Args:
        rules: the rules.
        kind: keys are separated by spaces, ids by commas; a group may have prefixes that end in `%`.
        text: the text.
        charset: the charset of its bytes on the wire.
    """
    of_kind = [rule for rule in rules if rule.kind is kind]
    is_group = kind is Kind.GROUP
    tokens = F.array(F.substring_index(text, "%", -1)) if is_group else F.split(text, _SEPARATORS[kind])
    return _exists(tokens, of_kind, charset)


def in_any(
    rules: Sequence[Rule], text: Column, charset: str = "UTF-8", kinds: Sequence[Kind] = tuple(Kind)
) -> Column:
    """Whether any word of a text matches a rule of the kinds; False for NULL."""
    words = F.split(text, '[\\x00-\\x20,:/%|"]+')
    of_kinds = _exists(words, [rule for rule in rules if rule.kind in kinds], charset)
    return any_of(of_kinds, *(in_text(rules, kind, text, charset) for kind in kinds))


def in_piece(rules: Sequence[Rule], piece: Column) -> Column:
    """Whether a piece of a body, one character per byte, is a record that a rule matches."""
    fields = F.split(piece, FIELD_SEPARATOR)
    first, last = F.get(fields, F.lit(0)), F.get(fields, F.size(fields) - 1)
    count = (F.size(fields) - F.when(last == "", 1).otherwise(0)).cast("string")
    shape = F.when(first.isin(*RECORD_TYPES), F.concat(first, F.lit(" "), count)).otherwise(
        F.concat(F.lit("… "), last, F.lit(" "), count)
    )
    every = F.sequence(F.lit(0), F.size(fields) - 1)

    def in_fields_of(kind: Kind) -> Column:
        literals = [
            literal
            for name, positions in _POSITIONS[kind].items()
            for literal in (F.lit(name), F.array(*map(F.lit, positions)).cast("array<int>"))
        ]
        positions = F.coalesce(F.try_element_at(F.create_map(*literals), shape), every)
        return F.exists(positions, lambda at: in_text(rules, kind, F.get(fields, at), BYTES))

    return any_of(*map(in_fields_of, sorted({rule.kind for rule in rules})))


def in_record(rules: Sequence[Rule]) -> Column:
    """Whether a row of events matches a rule: by its columns, or by the bytes of an Invalid record."""
    columns = [in_text(rules, kind, F.col(name)) for kind, names in COLUMNS.items() for name in names]
    return any_of(*columns, in_any(rules, F.decode("raw", BYTES), BYTES))


def _positions() -> dict[Kind, dict[str, list[int]]]:
    """Per kind, type and number of fields: the positions of the kind's fields in any layout; `…` marks layouts with type last."""
    found: dict[Kind, dict[str, list[int]]] = {kind: {} for kind in Kind}
    for kind, columns in COLUMNS.items():
        for layout in LAYOUTS:
            shape = f"{'… ' if layout.type_last else ''}{layout.record_type} {layout.count}"
            positions = [at for column in columns if (at := layout.position(column)) is not None]
            known = found[kind].setdefault(shape, [])
            known += [at for at in positions if at not in known]
    return found


_POSITIONS = _positions()


def _exists(tokens: Column, rules: Sequence[Rule], charset: str) -> Column:
    if not rules:
        return F.lit(False)
    digests: dict[str, list[str]] = {}
    for rule in rules:
        digests.setdefault(rule.salt, []).append(rule.digest)

    def matches(token: Column) -> Column:
        wire = F.encode(token, charset)
        hashes = {salt: F.sha2(F.concat(F.lit(salt).cast("binary"), wire), 256) for salt in digests}
        return any_of(*(hashes[salt].isin(of_salt) for salt, of_salt in digests.items()))

    return F.coalesce(F.exists(tokens, matches), F.lit(False))


def any_of(*conditions: Column) -> Column:
    """Whether any of the conditions is true; False for no conditions."""
    return reduce(or_, conditions, F.lit(False))
