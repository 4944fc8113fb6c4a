"""Remove the records that the rules match from trace messages; the messages are kept."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.erasure.matching import BYTES, in_any, in_piece
from spark_jobs.erasure.rules import Kind, Rule
from spark_jobs.trace.layouts import RECORD_SEPARATOR

# The message property with the number of erased records.
ERASED = "trace.erased_records"


def without_erased(messages: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The messages (columns of raw) without what the rules match; the same DataFrame if there are no rules.

    See `rewritten`.
    """
    return rewritten(messages, rules).select(*messages.columns) if rules else messages


def rewritten(messages: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The messages without what the rules match, and the columns `erased` (bigint, records) and `is_rewritten` (boolean).

    An erased record leaves an empty piece between two separators, so the other records keep their index. The property
    `trace.erased_records` counts them, and `min_records` is lower by them. Matching words are removed from `keys` and
    `properties`. A body that could not be read has no records: it is emptied if its bytes or the message's keys match.
    `body_crc` and `stored_size` do not change: they describe the message on the broker.
    """
    of_key = (Kind.KEY, Kind.MSG_ID)
    pieces = F.split(F.decode("body", BYTES), RECORD_SEPARATOR)
    kept = F.transform(
        pieces, lambda piece: F.when((piece != "") & in_piece(rules, piece), F.lit("")).otherwise(piece)
    )
    keys = _without_words(rules, F.col("keys"), of_key)
    properties = F.transform_values(
        "properties",
        lambda name, value: F.when(name == "KEYS", _without_words(rules, value, of_key)).otherwise(
            F.when(in_any(rules, value), F.lit("")).otherwise(value)
        ),
    )
    return (
        messages.withColumns({"_pieces": pieces, "_kept": kept, "_keys": keys, "_properties": properties})
        .withColumn("_has_body", F.col("body").isNotNull() & F.col("body_error").isNull())
        .withColumn(
            "erased",
            F.when(F.col("_has_body"), _empty("_kept") - _empty("_pieces")).otherwise(0).cast("bigint"),
        )
        .withColumn(
            "_is_named",
            ~F.col("keys").eqNullSafe(F.col("_keys"))
            | ~F.to_json("properties").eqNullSafe(F.to_json("_properties")),
        )
        .withColumn(
            "_is_emptied",
            F.col("body_error").isNotNull()
            & (F.octet_length("body") > 0)
            & (F.col("_is_named") | in_any(rules, F.decode("body", BYTES), BYTES)),
        )
        .withColumn("is_rewritten", (F.col("erased") > 0) | F.col("_is_named") | F.col("_is_emptied"))
        .withColumns(
            {
                "body": F.when(F.col("erased") > 0, F.encode(F.array_join("_kept", RECORD_SEPARATOR), BYTES))
                .when(F.col("_is_emptied"), F.lit(b""))
                .otherwise(F.col("body")),
                "min_records": F.col("min_records") - F.col("erased").cast("int"),
                "keys": F.col("_keys"),
                "properties": F.when(F.col("is_rewritten"), _counted()).otherwise(F.col("properties")),
            }
        )
        .select(*messages.columns, "erased", "is_rewritten")
    )


def _empty(pieces: str) -> Column:
    return F.size(F.filter(pieces, lambda piece: piece == ""))


def _counted() -> Column:
    """The properties without what matches, with the count, which adds up over several erasures."""
    before = F.coalesce(F.try_element_at("properties", F.lit(ERASED)).cast("bigint"), F.lit(0))
    others = F.map_filter(
        F.coalesce("_properties", F.create_map().cast("map<string,string>")), lambda name, _: name != ERASED
    )
    count = F.create_map(F.lit(ERASED), (before + F.col("erased")).cast("string"))
    return F.map_concat(others, count)


def _without_words(rules: Sequence[Rule], text: Column, kinds: Sequence[Kind]) -> Column:
    """The words of a text, separated by spaces, that no rule matches; NULL if there was no text."""
    words = F.filter(F.split(text, " "), lambda word: ~in_any(rules, word, kinds=kinds))
    return F.array_join(words, " ")
