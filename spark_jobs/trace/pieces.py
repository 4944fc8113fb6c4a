r"""Cut the bodies of trace messages into pieces, one a record.

`\x02` ends a record. Some clients leave it out and so glue the next record on; those are cut apart first, but
only after a record that is complete, so that a key which spells a type name cuts nothing off.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.trace.layouts import FIELD_SEPARATOR, NUMBER, RECORD_SEPARATOR, RECORD_TYPES

_TYPE_TOKEN = f"(?:{'|'.join(RECORD_TYPES)}){FIELD_SEPARATOR}"
_TEXT = f"[^{FIELD_SEPARATOR}{RECORD_SEPARATOR}]*"
_FIELD = f"{_TEXT}{FIELD_SEPARATOR}"
_NUMBER = f"{NUMBER}{FIELD_SEPARATOR}"
_INTEGER = f"[0-9]+{FIELD_SEPARATOR}"
_BOOLEAN = f"(?:true|false){FIELD_SEPARATOR}"
_SUB_AFTER = f"SubAfter{FIELD_SEPARATOR}{_FIELD}{_FIELD}{_NUMBER}{_BOOLEAN}{_FIELD}"
_SUB_BEFORE = f"SubBefore{FIELD_SEPARATOR}{_INTEGER}{_FIELD}{_FIELD}{_FIELD}{_FIELD}{_INTEGER}{_FIELD}"
# Complete records with the next one glued on by \x01 where \x02 should be; numbers and booleans are what they should be.
# - a SubAfter that ends in its code: Java 4.9.5-4.9.8 and 5.1.4-5.3.0 with access channel CLOUD;
# - a SubAfter of 9 fields or a SubBefore of 9, before one more of the same type: pyrocketmq.
COMPLETE = (
    f"({_SUB_AFTER}[0-9]+(?={FIELD_SEPARATOR}{_TYPE_TOKEN})"
    f"|{_SUB_AFTER}{_INTEGER}[0-9]{{13}}{FIELD_SEPARATOR}{_TEXT}(?={FIELD_SEPARATOR}SubAfter{FIELD_SEPARATOR})"
    f"|{_SUB_BEFORE}{_TEXT}(?={FIELD_SEPARATOR}SubBefore{FIELD_SEPARATOR}))"
    f"{FIELD_SEPARATOR}"
)
_GLUED = f"(?:(?<={RECORD_SEPARATOR})|^|\\G){COMPLETE}"


def _split(text: Column) -> Column:
    """The pieces of the body as text.

    Where no field but the first is a type, nothing is glued on, and the body is split as it is. To cut all the body into
    fields to see that is quicker than one regular expression, for it is a search for one byte.
    """
    other_fields = F.slice(F.split(text, FIELD_SEPARATOR), 2, F.octet_length(text) + 1)
    may_be_glued = F.arrays_overlap(other_fields, F.array(*map(F.lit, RECORD_TYPES)))
    cut = F.regexp_replace(text, _GLUED, f"$1{RECORD_SEPARATOR}")
    return F.split(F.when(may_be_glued, cut).otherwise(text), RECORD_SEPARATOR)


def with_pieces(messages: DataFrame, kept: tuple[str, ...]) -> DataFrame:
    """One row a message: the columns `kept`, `body_error`, `pieces`, `latin`, `unreadable`.

    `pieces` are text, a NULL for an unreadable body, whose bytes are `unreadable`. `latin` are the pieces of a body that
    is not UTF-8, as ISO-8859-1: one character a byte, so nothing is lost. Both are NULL for all other bodies.
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
    """One row a piece that is not empty: the columns `kept`, `body_error`, `record_index` (its place), `piece`, `torn`.

    `torn` are its bytes where the text does not say them, else NULL.
    """
    torn = F.encode(F.get("latin", F.col("record_index")), "ISO-8859-1")
    return (
        messages.select("*", F.posexplode_outer("pieces").alias("record_index", "piece"))
        .where("piece is null or piece != ''")
        .select(*kept, "body_error", "record_index", "piece", F.coalesce("unreadable", torn).alias("torn"))
    )
