"""Read the fields of a record as values of their kinds, and say what is wrong with the record if one is not."""

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
    # An IPv4 address, perhaps with a port, or an IPv6 one; perhaps with @pid.
    Kind.CLIENT_HOST: "(?s)^([0-9]{1,3}([.][0-9]{1,3}){3}(:[0-9]+)?"
    "|\\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z]+)?\\]?)(@.*)?\\z",
}
_NUMBERS = [c for c in COLUMNS if KINDS[c] in (Kind.INTEGER, Kind.TIME, Kind.NUMBER)]
_HOSTS = [c for c in COLUMNS if KINDS[c] in (Kind.STORE_HOST, Kind.CLIENT_HOST)]
TYPED = [c for c in COLUMNS if KINDS[c] is not Kind.TEXT and c not in _HOSTS]
_LONG_DIGITS = 19


def judged(records: DataFrame) -> DataFrame:
    """Adds a typed column per column of TYPED, and `invalid_reason`, NULL for a valid record."""
    wire = [f"{field(column)} as wire_{column}" for column in COLUMNS if KINDS[column] is not Kind.TEXT]
    whole = [f"try_cast(wire_{column} as bigint) as whole_{column}" for column in _NUMBERS]
    return (
        records.selectExpr("*", *wire)
        .selectExpr("*", "substring_index(wire_store_host, ':', -1) as port", *whole)
        .selectExpr("*", *[f"{_parsed(column)} as {column}" for column in TYPED])
        .selectExpr("*", f"{_reason()} as invalid_reason")
    )


def _plain(text: str, whole: str) -> str:
    """Whether the text is the shortest way to write the number `whole`: digits alone, without a leading zero.

    It is if the number has as many digits as the text has bytes. That costs a tenth of a regular
    expression, and nearly every number on the wire is plain.
    """
    least = [None, 0, *[10**digits for digits in range(1, _LONG_DIGITS)]]
    return f"({whole} >= {lookup(least, f'octet_length({text})')})"


def _fits(column: str) -> str:
    """True if the field is of its kind, else false or NULL.

    PATTERNS are the rule; what is tested before one is a quick way to a yes.
    """
    wire, kind = f"wire_{column}", KINDS[column]
    fits = f"{wire} rlike r'{PATTERNS[kind]}'"
    match kind:
        case Kind.INTEGER | Kind.TIME:
            return f"({_plain(wire, f'whole_{column}')} or {fits})"
        case Kind.STORE_HOST:
            has_host = f"octet_length({wire}) > octet_length(port) + 1"
            return f"(({has_host} and {_plain('port', 'try_cast(port as bigint)')}) or {fits})"
        case _:
            return f"({fits})"


def _parsed(column: str) -> str:
    """The typed field as a value of its kind; NULL if it is absent or not of that kind."""
    wire, whole, fits = f"wire_{column}", f"whole_{column}", _fits(column)
    match KINDS[column]:
        case Kind.INTEGER | Kind.TIME:
            return f"if({fits}, {whole}, null)"
        case Kind.NUMBER:
            plain = _plain(wire, whole)
            return f"case when {plain} then cast({whole} as double) when {fits} then try_cast({wire} as double) end"
        case _:
            return f"case when {wire} = 'true' then true when {fits} then try_cast({wire} as boolean) end"


def _reason() -> str:
    """What is wrong with a record, the first thing found; NULL for a valid one."""
    is_bad = {column: f"{column} is null" for column in TYPED}
    is_bad |= {column: f"{_fits(column)} is not true" for column in _HOSTS}
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
