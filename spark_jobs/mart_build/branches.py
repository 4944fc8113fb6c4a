"""The branches that a build or a rebuild writes to: every audited table gets one of the same name.

Spark writes the branches; pyiceberg reads the metadata, without a Spark query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import SparkSession

from spark_jobs.lake import publish
from spark_jobs.mart_build.rebuild_state import BRANCH_PREFIX
from spark_jobs.settings import CATALOG

PREFIX = "build_"
# The namespaces of audited tables, and those of what only exists during one run, or one rebuild.
NAMESPACES = ("intermediate", "marts")
WORKING_NAMESPACE = "changes"
NAMESPACES_OF_REBUILD = ("changes_of_rebuild", "staging_of_rebuild")
TRANSIENT_NAMESPACES = (WORKING_NAMESPACE, *NAMESPACES_OF_REBUILD)
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


def move(spark: SparkSession, catalog: Catalog, table: str, branch: str, to: str) -> None:
    """Move a branch to the head of another one; drop it if there is no such branch."""
    found = heads(catalog, table)
    if to not in found:
        publish.drop_branch(spark, f"{CATALOG}.{table}", branch)
    elif found.get(branch) != found[to]:
        publish.replace_branch(spark, f"{CATALOG}.{table}", branch, found[to])


def is_on_main(catalog: Catalog, table: str, snapshot_id: int) -> bool:
    """Whether the snapshot is main's head or an ancestor of it."""
    return is_on_main_of(catalog.load_table(table).metadata, snapshot_id)


def is_on_main_of(metadata: TableMetadata, snapshot_id: int) -> bool:
    """`is_on_main`, of metadata that is loaded."""
    history = ancestors_of(metadata.current_snapshot(), metadata)
    return any(snapshot.snapshot_id == snapshot_id for snapshot in history)


def drop_all(
    spark: SparkSession, catalog: Catalog, tables: list[str], prefixes: tuple[str, ...] = (PREFIX,)
) -> None:
    """Drop every branch of a build, of this run or of a run that was killed; or those with other prefixes."""
    for table in tables:
        for branch in heads(catalog, table):
            if branch.startswith(prefixes):
                publish.drop_branch(spark, f"{CATALOG}.{table}", branch)


def tables_in(catalog: Catalog, namespace: str) -> list[str]:
    """The tables of a namespace, each `<namespace>.<name>`."""
    return sorted(".".join(name) for name in catalog.list_tables(namespace))


def audited_tables(catalog: Catalog) -> list[str]:
    """The tables that are built on branches, each `<namespace>.<name>`."""
    return [table for namespace in NAMESPACES for table in tables_in(catalog, namespace)]


def drop_relations(spark: SparkSession, catalog: Catalog, namespaces: Iterable[str]) -> None:
    """Drop all tables and views of these namespaces, where they exist."""
    for namespace in namespaces:
        if not catalog.namespace_exists(namespace):
            continue
        for table in tables_in(catalog, namespace):
            publish.drop_table(spark, table)
        for row in spark.sql(f"show views in {CATALOG}.{namespace}").collect():
            spark.sql(f"drop view if exists {CATALOG}.{namespace}.{row.viewName}")


def drop_rebuild(spark: SparkSession, catalog: Catalog) -> None:
    """Drop all branches, tables and views of a rebuild."""
    drop_all(spark, catalog, audited_tables(catalog), (BRANCH_PREFIX,))
    drop_relations(spark, catalog, NAMESPACES_OF_REBUILD)
