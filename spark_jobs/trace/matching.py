"""Find the one layout that a record can have, and take its fields apart.

Type, field count and whether the last field is empty give one candidate, looked up in a literal array; a column is
the field at that layout's position, looked up likewise. A lookup in place of one CASE per layout keeps the
generated method below the size (8,000 bytes) above which the JVM never compiles it.

The expressions are SQL text, one a column. Put together from Column objects, each literal and each operator would be a call to
the JVM: thousands of calls, which take longer than to decode a small batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.trace.layouts import (
    BY_NAME,
    FIELD_SEPARATOR,
    LAYOUTS,
    MAX_COUNT,
    RECORD_TYPES,
    candidate,
)

# Field counts that are told apart; the last stands for all that are larger, one more for an empty last field.
_COUNTS = MAX_COUNT + 3
# Layouts of a count that another one has too, and the field that tells: a time has 13 digits.
_TELLING = {"pub_15": 9, "sub_after_8_ons": 7, "sub_after_9": 7, "sub_after_10_rmqsdk": 1}


def constants(values: Iterable[str | int | None]) -> str:
    """A constant array."""
    return f"array({', '.join('null' if value is None else repr(value) for value in values)})"


def lookup(values: Iterable[str | int | None], index: str) -> str:
    """`values[index]`, NULL outside; from a constant array, so a lookup costs no branch."""
    return f"get({constants(values)}, {index})"


def layout_index(name: str) -> int:
    """The layout's place in LAYOUTS, which is its id in the plan."""
    return LAYOUTS.index(BY_NAME[name])


def field(column: str) -> str:
    """The field that fills the column, as text; NULL where the layout has none, or there is no layout."""
    return f"get(fields, {lookup([layout.position(column) for layout in LAYOUTS], 'layout_id')})"


def matched(records: DataFrame) -> DataFrame:
    """Adds `fields` (the piece's, as text), `layout_id` (NULL where no layout fits) and `status`.

    Only type and count are looked at, and what tells two layouts of one count apart; whether the fields are of their
    kinds is seen later. `status` is the exactlyOnceStatus of an ONS record, which fills no column.
    """
    telling = lookup([_TELLING.get(layout.name) for layout in LAYOUTS], "by_count")
    ons = layout_index("sub_after_8_ons")
    return (
        records.withColumn("fields", F.split("piece", FIELD_SEPARATOR))
        .selectExpr(
            "*",
            f"{_place('get(fields, 0)', RECORD_TYPES)} as type_id",
            "get(fields, size(fields) - 1) as last",
        )
        .selectExpr("*", f"{_by_count()} as by_count")
        .selectExpr("*", f"get(fields, {telling}) as telling")
        .selectExpr("*", f"{_told_apart()} as layout_id")
        .selectExpr(
            *records.columns, "fields", "layout_id", f"if(layout_id = {ons}, telling, null) as status"
        )
    )


def _place(value: str, values: Iterable[str]) -> str:
    """The 0-based place of the value among the values; -1 if it is none of them."""
    return f"cast(array_position({constants(values)}, {value}) as int) - 1"


def _by_count() -> str:
    """The candidate by type, count and an empty last field; NewLife's by the type, which is the last field."""
    candidates = [
        candidate(record_type, count, empty)
        for record_type in RECORD_TYPES
        for count in range(_COUNTS)
        for empty in (False, True)
    ]
    table = [None if layout is None else LAYOUTS.index(layout) for layout in candidates]
    place = f"(type_id * {_COUNTS} + least(size(fields), {_COUNTS - 1})) * 2 + if(last = '', 1, 0)"

    type_last = {layout.record_type: LAYOUTS.index(layout) for layout in LAYOUTS if layout.type_last}
    (their_count,) = {layout.count for layout in LAYOUTS if layout.type_last}
    by_last = lookup(type_last.values(), _place("last", type_last))
    return f"""case
        when type_id >= 0 then {lookup(table, place)}
        when size(fields) = {their_count} then {by_last}
    end"""


def _told_apart() -> str:
    """The candidate, or the other layout of its count, by the field that tells."""
    pub, rmqsdk_pub = layout_index("pub_15"), layout_index("pub_15_rmqsdk")
    sub_after, ons = layout_index("sub_after_9"), layout_index("sub_after_8_ons")
    is_time = r"telling rlike r'^[0-9]{13}\z'"
    # In turn:
    # - two clients put the client host in different places;
    # - an ONS record with a separator after its last field has the count of a sub_after_9;
    # - a sub_after_9 that was cut short has its time where ONS has a small number.
    return rf"""case
        when telling is null then by_count
        when by_count = {pub} then if(telling rlike r'^[0-9]+\z', by_count, {rmqsdk_pub})
        when by_count = {sub_after} then if(size(fields) > 9 or last != '' or {is_time}, by_count, {ons})
        when (by_count = {ons}) != ({is_time}) then by_count
    end"""
