"""The branch that a build writes to: every audited table gets one of the same name.

Spark writes the branches; pyiceberg reads the metadata, without a Spark query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import SparkSession

from spark_jobs.lake import publish
from spark_jobs.settings import CATALOG

PREFIX = "build_"
# The namespaces of audited tables, and the one of the tables that exist during one run only.
NAMESPACES = ("intermediate", "marts")
WORKING_NAMESPACE = "changes"
_WAP_BRANCH = "spark.wap.branch"


@contextmanager
def writing_to(spark: SparkSession, branch: str, properties: dict[str, str]) -> Iterator[None]:
    """Within the block, tables with `write.wap.enabled` are read from and written to the branch, where it exists.

    Every commit has these snapshot properties. A new table gets the branch with its first write.
    """
    with publish.commit_with_properties(spark, properties):
        spark.conf.set(_WAP_BRANCH, branch)
        try:
            yield
        finally:
            spark.conf.unset(_WAP_BRANCH)


def heads(catalog: Catalog, table: str) -> dict[str, int]:
    """Branch name to snapshot id of a table (`marts.<name>`); without main before the first publication."""
    refs = catalog.load_table(table).metadata.refs
    return {name: r.snapshot_id for name, r in refs.items() if r.snapshot_ref_type == SnapshotRefType.BRANCH}


def create(spark: SparkSession, catalog: Catalog, tables: list[str], branch: str) -> None:
    """Create the branch at main in every table that was published before.

    Iceberg would create it with the first write, but then counts the totals in the snapshot summary (`total-records`)
    from zero.
    """
    for table in tables:
        if main := heads(catalog, table).get("main"):
            publish.create_branch(spark, f"{CATALOG}.{table}", branch, main)


def is_on_main(catalog: Catalog, table: str, snapshot_id: int) -> bool:
    """Whether the snapshot is main's head or an ancestor of it."""
    metadata = catalog.load_table(table).metadata
    history = ancestors_of(metadata.current_snapshot(), metadata)
    return any(snapshot.snapshot_id == snapshot_id for snapshot in history)


def drop_all(spark: SparkSession, catalog: Catalog, tables: list[str]) -> None:
    """Drop every branch of a build, of this run or of a run that was killed."""
    for table in tables:
        for branch in heads(catalog, table):
            if branch.startswith(PREFIX):
                publish.drop_branch(spark, f"{CATALOG}.{table}", branch)


def tables_in(catalog: Catalog, namespace: str) -> list[str]:
    """The tables of a namespace, each `<namespace>.<name>`."""
    return sorted(".".join(name) for name in catalog.list_tables(namespace))


def audited_tables(catalog: Catalog) -> list[str]:
    """The tables that are built on branches, each `<namespace>.<name>`."""
    return [table for namespace in NAMESPACES for table in tables_in(catalog, namespace)]


def drop_tables_of_one_run(spark: SparkSession, catalog: Catalog) -> None:
    for table in tables_in(catalog, WORKING_NAMESPACE):
        spark.sql(f"drop table if exists {CATALOG}.{table} purge")
