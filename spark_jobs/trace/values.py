"""Read the fields of a record as values of their kinds, and say what is wrong with the record if one is not."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.trace.layouts import COLUMNS, FIELD_SEPARATOR, KINDS, NUMBER, RECORD_TYPES, WIRE_NAMES, Kind
from spark_jobs.trace.matching import lookup

PATTERNS = {
    Kind.INTEGER: "^[0-9]+\\z",
    Kind.TIME: "^[0-9]+\\z",
    Kind.NUMBER: f"^{NUMBER}\\z",
    Kind.BOOLEAN: "^(?i:true|false)\\z",
    Kind.STORE_HOST: "^(null|.+:[0-9]+)?\\z",
    # An IPv4 address, perhaps with a port, or an IPv6 one; perhaps with @pid.
    Kind.CLIENT_HOST: "^([0-9]{1,3}([.][0-9]{1,3}){3}(:[0-9]+)?"
    "|\\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z]+)?\\]?)(@.*)?\\z",
}
TYPED = [column for column in COLUMNS if KINDS[column] is not Kind.TEXT]
_NUMBERS = [c for c in TYPED if KINDS[c] in (Kind.INTEGER, Kind.TIME, Kind.NUMBER)]
_LONG_DIGITS = 19


def judged(records: DataFrame) -> DataFrame:
    """Adds a typed column per `wire_<column>` of TYPED, and `invalid_reason`, NULL for a valid record."""
    whole = {f"whole_{column}": F.col(f"wire_{column}").try_cast("bigint") for column in _NUMBERS}
    parsed = records.withColumns(whole).withColumns({column: _parsed(column) for column in TYPED})
    return parsed.withColumn("invalid_reason", _reason())


def _plain(text: Column, whole: Column) -> Column:
    """Whether the text is the shortest way to write the number `whole`: digits alone, without a leading zero.

    It is if the number has as many digits as the text has bytes. That costs a tenth of a regular
    expression, and nearly every number on the wire is plain.
    """
    least = [None, 0, *[10**digits for digits in range(1, _LONG_DIGITS)]]
    return whole >= lookup(least, F.octet_length(text))


def _parsed(column: str) -> Column:
    """The typed field as a value of its kind; NULL if it is absent or not of that kind.

    PATTERNS are the rule; what is tested before them is a quick way to a yes.
    """
    wire, whole, kind = F.col(f"wire_{column}"), F.col(f"whole_{column}"), KINDS[column]
    fits = wire.rlike(PATTERNS[kind])
    match kind:
        case Kind.INTEGER | Kind.TIME:
            return F.when(_plain(wire, whole) | fits, whole)
        case Kind.NUMBER:
            return F.when(_plain(wire, whole), whole.cast("double")).when(fits, wire.try_cast("double"))
        case Kind.BOOLEAN:
            return F.when(wire == "true", F.lit(True)).when(fits, wire.try_cast("boolean"))
        case _:
            return F.when(fits, wire)


def _reason() -> Column:
    """What is wrong with a record, the first thing found; NULL for a valid one."""
    fields = F.split(
        "piece", FIELD_SEPARATOR
    )  # made again for the few that have no layout, not carried for all
    no_layout = F.col("layout_id").isNull()
    reason = F.when(F.col("body_error").isNotNull(), F.concat(F.lit("body_error:"), "body_error")).when(
        no_layout,
        F.when(
            F.get(fields, F.lit(0)).isin(*RECORD_TYPES),
            F.concat(F.lit("field_count:"), F.size(fields).cast("string")),
        ).otherwise(F.lit("unknown_type")),
    )
    for column in TYPED:
        is_bad = F.col(f"wire_{column}").isNotNull() & F.col(column).isNull()
        reason = reason.when(is_bad, F.lit(f"bad_{KINDS[column]}:{WIRE_NAMES[column]}"))
    bad_status = ~F.col("status").rlike(PATTERNS[Kind.INTEGER])
    return reason.when(bad_status, F.lit("bad_integer:exactlyOnceStatus"))
