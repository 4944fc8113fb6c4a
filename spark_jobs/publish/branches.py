"""The branch that a build writes: every audited table has one of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.ingest import publish
from spark_jobs.session import CATALOG

PREFIX = "build_"
# Where the audited tables of the models are, and where those of one run.
NAMESPACES = ("intermediate", "marts")
OF_ONE_RUN = "changes"
_WAP_BRANCH = "spark.wap.branch"


@contextmanager
def writing_to(spark: SparkSession, branch: str, properties: dict[str, str]) -> Iterator[None]:
    """Within it, tables with `write.wap.enabled` are written and read on the branch, where they have it.

    Every commit carries the properties. A new table gets the branch with its first write.
    """
    with publish.committing_with(spark, properties):
        spark.conf.set(_WAP_BRANCH, branch)
        try:
            yield
        finally:
            spark.conf.unset(_WAP_BRANCH)


def heads(spark: SparkSession, table: str) -> dict[str, int]:
    """Branch to snapshot id of a table (`marts.<name>`); no main if nothing was published yet."""
    rows = spark.sql(f"select name, snapshot_id from {CATALOG}.{table}.refs where type = 'BRANCH'").collect()
    return {row["name"]: row["snapshot_id"] for row in rows}


def create(spark: SparkSession, tables: list[str], branch: str) -> None:
    """Start the branch at main in every table that has been published before.

    Iceberg would do so by itself with the first write, but then counts the totals of the snapshot's
    summary (`total-records`) from zero.
    """
    for table in tables:
        if "main" in heads(spark, table):
            spark.sql(f"alter table {CATALOG}.{table} create branch {branch}")


def is_on_main(spark: SparkSession, table: str, snapshot_id: int) -> bool:
    """Whether the snapshot is main's head or an ancestor of it."""
    history = spark.table(f"{CATALOG}.{table}.history")
    return not history.where(f"snapshot_id = {snapshot_id} and is_current_ancestor").isEmpty()


def drop_all(spark: SparkSession, tables: list[str]) -> None:
    """Drop every branch that a build made, of this run or left over from one that died."""
    for table in tables:
        for branch in heads(spark, table):
            if branch.startswith(PREFIX):
                spark.sql(f"alter table {CATALOG}.{table} drop branch if exists {branch}")


def tables_in(spark: SparkSession, namespace: str) -> list[str]:
    """The tables of a namespace, each `<namespace>.<name>`."""
    rows = spark.sql(f"show tables in {CATALOG}.{namespace}").collect()
    return sorted(f"{namespace}.{row['tableName']}" for row in rows)


def audited_tables(spark: SparkSession) -> list[str]:
    """The tables that are built on branches, each `<namespace>.<name>`."""
    return [table for namespace in NAMESPACES for table in tables_in(spark, namespace)]


def drop_tables_of_one_run(spark: SparkSession) -> None:
    for table in tables_in(spark, OF_ONE_RUN):
        spark.sql(f"drop table if exists {CATALOG}.{table} purge")
