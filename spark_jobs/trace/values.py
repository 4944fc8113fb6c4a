"""Parse the fields of a record by kind, and find the reason if the record is invalid."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_jobs.trace.layouts import COLUMNS, KINDS, NUMBER, RECORD_TYPES, WIRE_NAMES, Kind
from spark_jobs.trace.matching import constants, field, lookup

PATTERNS = {
    Kind.INTEGER: "^[0-9]+\\z",
    Kind.TIME: "^[0-9]+\\z",
    Kind.NUMBER: f"^{NUMBER}\\z",
    Kind.BOOLEAN: "^(?i:true|false)\\z",
    Kind.STORE_HOST: "(?s)^(null|.+:[0-9]+)?\\z",
    # An IPv4 address with optional port, or an IPv6 address; @pid is optional.
    Kind.CLIENT_HOST: "(?s)^([0-9]{1,3}([.][0-9]{1,3}){3}(:[0-9]+)?"
    "|\\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z]+)?\\]?)(@.*)?\\z",
}
_NUMBERS = [c for c in COLUMNS if KINDS[c] in (Kind.INTEGER, Kind.TIME, Kind.NUMBER)]
_HOSTS = [c for c in COLUMNS if KINDS[c] in (Kind.STORE_HOST, Kind.CLIENT_HOST)]
TYPED = [c for c in COLUMNS if KINDS[c] is not Kind.TEXT and c not in _HOSTS]
_LONG_DIGITS = 19


def with_values(records: DataFrame) -> DataFrame:
    """Add a typed column per column of TYPED, and `invalid_reason` (string), NULL for a valid record."""
    wire = [f"{field(column)} as wire_{column}" for column in COLUMNS if KINDS[column] is not Kind.TEXT]
    whole = [f"try_cast(wire_{column} as bigint) as whole_{column}" for column in _NUMBERS]
    return (
        records.selectExpr("*", *wire)
        .selectExpr("*", "substring_index(wire_store_host, ':', -1) as port", *whole)
        .selectExpr("*", *[f"{_parsed(column)} as {column}" for column in TYPED])
        .selectExpr("*", f"{_reason()} as invalid_reason")
    )


def _is_canonical(text: str, whole: str) -> str:
    """SQL: whether the text is `whole` in canonical form: digits only, without a leading zero.

    It is if the number has as many digits as the text has bytes. This costs a tenth of a regular expression, and nearly
    every number on the wire is in canonical form.
    """
    least = [None, 0, *[10**digits for digits in range(1, _LONG_DIGITS)]]
    return f"({whole} >= {lookup(least, f'octet_length({text})')})"


def _is_valid(column: str) -> str:
    """SQL: true if the field has the format of its kind, otherwise false or NULL.

    PATTERNS define the formats; the test before a pattern is a fast path.
    """
    wire, kind = f"wire_{column}", KINDS[column]
    matches = f"{wire} rlike r'{PATTERNS[kind]}'"
    match kind:
        case Kind.INTEGER | Kind.TIME:
            return f"({_is_canonical(wire, f'whole_{column}')} or {matches})"
        case Kind.STORE_HOST:
            has_host = f"octet_length({wire}) > octet_length(port) + 1"
            return f"(({has_host} and {_is_canonical('port', 'try_cast(port as bigint)')}) or {matches})"
        case _:
            return f"({matches})"


def _parsed(column: str) -> str:
    """SQL: the value of the typed field; NULL if it is absent or invalid."""
    wire, whole, is_valid = f"wire_{column}", f"whole_{column}", _is_valid(column)
    match KINDS[column]:
        case Kind.INTEGER | Kind.TIME:
            return f"if({is_valid}, {whole}, null)"
        case Kind.NUMBER:
            canonical = _is_canonical(wire, whole)
            return f"case when {canonical} then cast({whole} as double) when {is_valid} then try_cast({wire} as double) end"
        case _:
            return f"case when {wire} = 'true' then true when {is_valid} then try_cast({wire} as boolean) end"


def _reason() -> str:
    """SQL: the first reason why a record is invalid; NULL for a valid one."""
    is_bad = {column: f"{column} is null" for column in TYPED}
    is_bad |= {column: f"{_is_valid(column)} is not true" for column in _HOSTS}
    bad_fields = [
        f"when wire_{column} is not null and {is_bad[column]} then 'bad_{KINDS[column]}:{WIRE_NAMES[column]}'"
        for column in COLUMNS
        if column in is_bad
    ]
    return f"""case
        when body_error is not null then concat('body_error:', body_error)
        when layout_id is null and array_contains({constants(RECORD_TYPES)}, get(fields, 0))
            then concat('field_count:', cast(size(fields) as string))
        when layout_id is null then 'unknown_type'
        {" ".join(bad_fields)}
        when not status rlike r'{PATTERNS[Kind.INTEGER]}' then 'bad_integer:exactlyOnceStatus'
    end"""
