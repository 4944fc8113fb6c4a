"""Find the one layout that a record can have, and take its fields apart.

Type, field count and whether the last field is empty give one candidate, looked up in a literal array; a column is
the field at that layout's position, looked up likewise. A lookup in place of one CASE per layout keeps the
generated method below the size (8,000 bytes) above which the JVM never compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.trace.layouts import (
    BY_NAME,
    COLUMNS,
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


def lookup(values: Sequence[object], index: Column) -> Column:
    """`values[index]`, NULL outside; a constant array, so a lookup costs no branch."""
    return F.get(F.array(*[F.lit(v) for v in values]), index)


def layout_index(name: str) -> int:
    """The layout's place in LAYOUTS, which is its id in the plan."""
    return LAYOUTS.index(BY_NAME[name])


def matched(records: DataFrame) -> DataFrame:
    """Adds `layout_id` (NULL where no layout fits), `status`, and per column its field as text, `wire_<column>`.

    A column that the layout does not have is NULL. Only type and count are looked at, and what tells two layouts of
    one count apart; whether the fields are of their kinds is seen later. `status` is the exactlyOnceStatus of an ONS
    record, which fills no column.
    """
    first, last = F.get("fields", F.lit(0)), F.get("fields", F.size("fields") - 1)
    type_id = F.array_position(F.array(*map(F.lit, RECORD_TYPES)), first) - 1
    telling = lookup([_TELLING.get(layout.name) for layout in LAYOUTS], F.col("by_count"))
    return (
        records.withColumn("fields", F.split("piece", FIELD_SEPARATOR))
        .withColumns({"type_id": type_id.cast("int"), "last": last})
        .withColumn("by_count", _by_count())
        .withColumn("telling", F.get("fields", telling))
        .withColumn("layout_id", _told_apart())
        .select(
            *records.columns,
            "layout_id",
            F.when(F.col("layout_id") == layout_index("sub_after_8_ons"), F.col("telling")).alias("status"),
            *[_field(column, F.col("layout_id")).alias(f"wire_{column}") for column in COLUMNS],
        )
    )


def _field(column: str, layout_id: Column) -> Column:
    """The field that fills the column, as text; NULL where the layout has none, or there is no layout."""
    return F.get("fields", lookup([layout.position(column) for layout in LAYOUTS], layout_id))


def _by_count() -> Column:
    """The candidate by type, count and an empty last field; NewLife's by the type, which is the last field."""
    candidates = [
        candidate(record_type, count, empty)
        for record_type in RECORD_TYPES
        for count in range(_COUNTS)
        for empty in (False, True)
    ]
    table = [None if layout is None else LAYOUTS.index(layout) for layout in candidates]
    count = F.least(F.size("fields"), F.lit(_COUNTS - 1))
    place = (F.col("type_id") * _COUNTS + count) * 2 + (F.col("last") == "").cast("int")

    type_last = {layout.record_type: LAYOUTS.index(layout) for layout in LAYOUTS if layout.type_last}
    (their_count,) = {layout.count for layout in LAYOUTS if layout.type_last}
    last_type = F.array_position(F.array(*map(F.lit, type_last)), F.col("last")) - 1
    by_last = F.when(F.size("fields") == their_count, lookup(list(type_last.values()), last_type.cast("int")))
    return F.when(F.col("type_id") < 0, by_last).otherwise(lookup(table, place))


def _told_apart() -> Column:
    """The candidate, or the other layout of its count, by the field that tells."""
    by_count, telling = F.col("by_count"), F.col("telling")
    ons, rmqsdk_pub = layout_index("sub_after_8_ons"), layout_index("pub_15_rmqsdk")
    is_number = telling.rlike("^[0-9]+\\z")
    is_time = telling.rlike("^[0-9]{13}\\z")
    return (
        F.when(telling.isNull(), by_count)
        # Two clients put the client host in different places.
        .when(by_count == layout_index("pub_15"), F.when(is_number, by_count).otherwise(F.lit(rmqsdk_pub)))
        # An ONS record with a separator after its last field has the count of a sub_after_9.
        .when(
            by_count == layout_index("sub_after_9"),
            F.when((F.size("fields") > 9) | (F.col("last") != "") | is_time, by_count).otherwise(F.lit(ons)),
        )
        # A sub_after_9 that was cut short has its time where ONS has a small number.
        .when((by_count == ons) != is_time, by_count)
    )
