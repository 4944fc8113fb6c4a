r"""Split the bodies of trace messages into pieces, one per record.

`\x02` ends a record. Some clients omit it, so the next record is glued on (glued.py). Glued records are split first.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.trace.glued import COMPLETE
from spark_jobs.trace.layouts import FIELD_SEPARATOR, RECORD_SEPARATOR, RECORD_TYPES

_GLUED = f"(?:(?<={RECORD_SEPARATOR})|^|\\G){COMPLETE}"


def _split(text: Column) -> Column:
    """The pieces of the body as text.

    If no field except the first is a type, no record is glued on, and the body is split as it is. Splitting the whole
    body into fields for this test is faster than a regular expression, as it searches for one byte.
    """
    other_fields = F.slice(F.split(text, FIELD_SEPARATOR), 2, F.octet_length(text) + 1)
    may_be_glued = F.arrays_overlap(other_fields, F.array(*map(F.lit, RECORD_TYPES)))
    unglued = F.regexp_replace(text, _GLUED, f"$1{RECORD_SEPARATOR}")
    return F.split(F.when(may_be_glued, unglued).otherwise(text), RECORD_SEPARATOR)


def with_pieces(messages: DataFrame, kept: tuple[str, ...]) -> DataFrame:
    """One row per message: the columns `kept`, `body_error`, `pieces`, `latin`, `unreadable`.

    `pieces` (array<string>) has one NULL for an unreadable body, whose bytes are in `unreadable` (binary). `latin`
    (array<string>) has the pieces of a body that is not UTF-8, as ISO-8859-1: one character per byte, so nothing is lost.
    `latin` and `unreadable` are NULL for all other bodies.
    """
    text, is_readable = F.col("body").cast("string"), F.col("body_error").isNull()
    return messages.select(
        *kept,
        "body_error",
        F.when(is_readable, _split(text)).otherwise(F.array(F.lit(None).cast("string"))).alias("pieces"),
        F.when(is_readable & ~F.is_valid_utf8(text), _split(F.decode("body", "ISO-8859-1"))).alias("latin"),
        F.when(~is_readable, F.col("body")).alias("unreadable"),
    )


def records(messages: DataFrame, kept: tuple[str, ...]) -> DataFrame:
    """One row per piece that is not empty: `kept`, `body_error`, `record_index` (int, position), `piece`, `raw_bytes`.

    `raw_bytes` (binary) is NULL if encoding the text as UTF-8 gives the bytes of the piece.
    """
    latin_bytes = F.encode(F.get("latin", F.col("record_index")), "ISO-8859-1")
    return (
        messages.select("*", F.posexplode_outer("pieces").alias("record_index", "piece"))
        .where("piece is null or piece != ''")
        .select(
            *kept,
            "body_error",
            "record_index",
            "piece",
            F.coalesce("unreadable", latin_bytes).alias("raw_bytes"),
        )
    )


def min_records() -> Column:
    """Column `min_records` of raw: the pieces of `body` that are not empty; 1 if there is a `body_error`.

    A glued record becomes more rows than pieces, so a message may have more records, never fewer.
    """
    pieces = F.size(F.array_remove(F.split(F.col("body").cast("string"), RECORD_SEPARATOR), ""))
    return F.when(F.col("body_error").isNull(), pieces).otherwise(1)


def with_min_records(messages: DataFrame, kept: Sequence[str]) -> DataFrame:
    """One row per message of raw: the columns `kept`, `min_records` (int).

    Bodies are read only of messages that were written before raw had the column; Iceberg reads no file without such messages.
    """
    counted = messages.where("min_records is not null").select(*kept, "min_records")
    others = messages.where("min_records is null").select(*kept, min_records().alias("min_records"))
    return counted.union(others)
