"""Erase from the rows of the marts that a full refresh keeps because events no longer has their records."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.erasure.matching import in_any, in_text
from spark_jobs.erasure.rules import Kind, Rule
from spark_jobs.settings import CATALOG

COLUMNS = {
    Kind.KEY: ("keys",),
    Kind.GROUP: ("consumer_group", "producer_group", "expected_group", "group_name"),
    Kind.MSG_ID: ("msg_id", "offset_msg_id", "batch_id"),
}
# The first bytes of a record that matches no layout: they may contain any text.
RECORD_SAMPLE = "sample"


def erase_from_marts(spark: SparkSession, tables: Sequence[str], rule: Rule) -> None:
    """Delete the rows of the rule's cluster that match it, on the branch that the session writes to.

    For a key, all rows of each message that has the key are deleted: not every table of messages has the keys.

    Args:
        spark: the session; `spark.wap.branch` is the branch that is read and written.
        tables: each `<namespace>.<name>`; tables without a column of the rule's kind are not changed.
        rule: what is erased.
    """
    columns = {table: spark.table(f"{CATALOG}.{table}").columns for table in tables}
    of_cluster = {table: names for table, names in columns.items() if "cluster" in names}
    for table, names in of_cluster.items():
        rows = spark.table(f"{CATALOG}.{table}").where(F.col("cluster") == rule.cluster)
        for column in COLUMNS[rule.kind]:
            if column in names:
                named = rows.where(in_text([rule], rule.kind, F.col(column)))
                if rule.kind is Kind.KEY and "msg_id" in names:
                    messages = _values(named, "msg_id")
                    for other in (other for other, names in of_cluster.items() if "msg_id" in names):
                        _delete(spark, other, rule, messages)
                _delete(spark, table, rule, _values(named, column))
        if RECORD_SAMPLE in names:
            named = rows.where(in_any([rule], F.col(RECORD_SAMPLE)))
            _delete(spark, table, rule, _values(named, RECORD_SAMPLE))


def _values(rows: DataFrame, column: str) -> DataFrame:
    """The values of a column, persisted, as the rows are deleted while they are read."""
    return rows.select(column).where(F.col(column).isNotNull()).distinct().localCheckpoint()


def _delete(spark: SparkSession, table: str, rule: Rule, values: DataFrame) -> None:
    """Delete the rows of the cluster that have one of the values in the column of the same name."""
    (column,) = values.columns
    if values.isEmpty():
        return
    values.createOrReplaceTempView("erased_values")
    spark.sql(
        f"merge into {CATALOG}.{table} t using erased_values s on t.cluster = :cluster and t.{column} = s.{column} "
        "when matched then delete",
        args={"cluster": rule.cluster},
    )
