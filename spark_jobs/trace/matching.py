"""Find the layout of a record, and split its fields.

Type, field count and whether the last field is empty determine one candidate, looked up in a literal array; the position
of a column's field is looked up in the same way. Lookups instead of one CASE per layout keep the generated method below
8,000 bytes, above which the JVM does not compile it.

The expressions are SQL text, one per column. With Column objects, each literal and each operator would be a call to the
JVM: thousands of calls, which take longer than decoding a small batch.
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

# Number of distinguished field counts; the last one includes all larger counts. One more for an empty last field.
_COUNTS = MAX_COUNT + 3
# Layouts with the field count of another one, and the position of the distinguishing field: a time has 13 digits.
_DISTINGUISHING = {"pub_15": 9, "sub_after_8_ons": 7, "sub_after_9": 7, "sub_after_10_rmqsdk": 1}


def constants(values: Iterable[str | int | None]) -> str:
    """SQL: a constant array."""
    return f"array({', '.join('null' if value is None else repr(value) for value in values)})"


def lookup(values: Iterable[str | int | None], index: str) -> str:
    """SQL: `values[index]`, NULL if out of range; a constant array, so there is no branch."""
    return f"get({constants(values)}, {index})"


def layout_index(name: str) -> int:
    """The layout's position in LAYOUTS, which is its `layout_id`."""
    return LAYOUTS.index(BY_NAME[name])


def field(column: str) -> str:
    """SQL: the field of the column, as text; NULL if the layout has none, or there is no layout."""
    return f"get(fields, {lookup([layout.position(column) for layout in LAYOUTS], 'layout_id')})"


def with_layout(records: DataFrame) -> DataFrame:
    """Add `fields` (array<string>), `layout_id` (int, NULL if no layout matches) and `status` (string).

    Only the type, the field count and the distinguishing field are compared; `with_values` validates the fields.
    `status` is the exactlyOnceStatus of an ONS record, which has no column.
    """
    distinguishing = lookup([_DISTINGUISHING.get(layout.name) for layout in LAYOUTS], "by_count")
    ons = layout_index("sub_after_8_ons")
    return (
        records.withColumn("fields", F.split("piece", FIELD_SEPARATOR))
        .selectExpr(
            "*",
            f"{_position('get(fields, 0)', RECORD_TYPES)} as type_id",
            "get(fields, size(fields) - 1) as last",
        )
        .selectExpr("*", f"{_by_count()} as by_count")
        .selectExpr("*", f"get(fields, {distinguishing}) as distinguishing")
        .selectExpr("*", f"{_distinguished()} as layout_id")
        .selectExpr(
            *records.columns, "fields", "layout_id", f"if(layout_id = {ons}, distinguishing, null) as status"
        )
    )


def _position(value: str, values: Iterable[str]) -> str:
    """SQL: the 0-based position of the value in the values; -1 if it is none of them."""
    return f"cast(array_position({constants(values)}, {value}) as int) - 1"


def _by_count() -> str:
    """SQL: the candidate by type, count and empty last field; for NewLife by the last field, which is the type."""
    candidates = [
        candidate(record_type, count, empty)
        for record_type in RECORD_TYPES
        for count in range(_COUNTS)
        for empty in (False, True)
    ]
    table = [None if layout is None else LAYOUTS.index(layout) for layout in candidates]
    index = f"(type_id * {_COUNTS} + least(size(fields), {_COUNTS - 1})) * 2 + if(last = '', 1, 0)"

    type_last = {layout.record_type: LAYOUTS.index(layout) for layout in LAYOUTS if layout.type_last}
    (type_last_count,) = {layout.count for layout in LAYOUTS if layout.type_last}
    by_last = lookup(type_last.values(), _position("last", type_last))
    return f"""case
        when type_id >= 0 then {lookup(table, index)}
        when size(fields) = {type_last_count} then {by_last}
    end"""


def _distinguished() -> str:
    """SQL: the candidate, or the other layout of its count, by the distinguishing field."""
    pub, rmqsdk_pub = layout_index("pub_15"), layout_index("pub_15_rmqsdk")
    sub_after, ons = layout_index("sub_after_9"), layout_index("sub_after_8_ons")
    is_time = r"distinguishing rlike r'^[0-9]{13}\z'"
    # In this order:
    # - two clients write the client host at different positions;
    # - an ONS record with a separator after its last field has the count of a sub_after_9;
    # - a truncated sub_after_9 has its time at the position of a small number in an ONS record.
    return rf"""case
        when distinguishing is null then by_count
        when by_count = {pub} then if(distinguishing rlike r'^[0-9]+\z', by_count, {rmqsdk_pub})
        when by_count = {sub_after} then if(size(fields) > 9 or last != '' or {is_time}, by_count, {ons})
        when (by_count = {ons}) != ({is_time}) then by_count
    end"""
