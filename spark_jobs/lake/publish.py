"""Write–audit–publish: commit to an Iceberg branch, audit it there, then fast-forward main to it.

`fast_forward` is a compare-and-set: it succeeds only if main is still at the snapshot that the branch was created from,
which is the one that the plan read its committed offsets from. No lock is needed: of two concurrent writers one gets
`PublishConflictError`, so no row is written twice. This makes ingest and merge exactly once and idempotent.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, reduce
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from spark_jobs.lake.catalog import is_commit_conflict, retry_commit
from spark_jobs.lake.offsets import EXTRACTED
from spark_jobs.lake.tables import Table
from spark_jobs.settings import CATALOG

ATTEMPTS = 3
_TIME_FORMAT = "%Y%m%d%H%M%S"


class PublishConflictError(Exception):
    """Another writer published first; nothing of this publication is on main. Plan again from the new main."""


class AuditError(Exception):
    """The branch does not contain the planned rows; it was not published."""


@contextmanager
def write_audit_publish(spark: SparkSession, table: Table, purpose: str, base: int | None) -> Iterator[str]:
    """Publish a branch (see `branch`) that the block writes and audits: fast-forward main when the block succeeds.

    Raises:
        PublishConflictError: another writer published first; nothing of this publication is on main.
    """
    with branch(spark, table, purpose, base) as name:
        yield name
        fast_forward(spark, table.full_name, name)


@contextmanager
def branch(spark: SparkSession, table: Table, purpose: str, base: int | None) -> Iterator[str]:
    """Create a branch for one publication at the snapshot that the plan was made from; drop it at the end.

    A branch that a killed process leaves behind does no harm; maintenance drops it once it is old, by the time in its
    name. Iceberg's own `max-ref-age-ms` is not used: it counts from the snapshot, so a new branch of a table without
    recent commits would expire before it is written.

    Args:
        spark: the session.
        table: the table to publish to.
        purpose: the prefix of the branch's name.
        base: `CommittedOffsets.head` of the offsets that the plan was made from.

    Raises:
        PublishConflictError: the table had no snapshot to start from. It has one now: plan again.
    """
    if base is None and load(spark, table.full_name).currentSnapshot() is None:
        empty = spark.createDataFrame([], table.schema).writeTo(table.full_name)
        empty.option(f"snapshot-property.{EXTRACTED}", "").append()
    if base is None:
        raise PublishConflictError(f"{table.full_name} had no snapshot yet")
    name = f"{purpose}_{datetime.now(UTC):{_TIME_FORMAT}}_{uuid.uuid4().hex[:12]}"
    create_branch(spark, table.full_name, name, base)
    try:
        yield name
    finally:
        drop_branch(spark, table.full_name, name)


def created_at(branch_name: str) -> datetime | None:
    """When a branch that `branch` created was created; None for any other branch."""
    parts = branch_name.split("_")
    try:
        return datetime.strptime(parts[-2], _TIME_FORMAT).replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return None


def create_branch(spark: SparkSession, table: str, name: str, base: int) -> None:
    """Create a branch of a table, by the table's full name with the catalog, at the snapshot `base`."""
    retry_commit()(lambda: load(spark, table).manageSnapshots().createBranch(name, base).commit())


def drop_branch(spark: SparkSession, table: str, name: str) -> None:
    """Drop a branch of a table, by the table's full name with the catalog, if it exists."""

    def drop() -> None:
        loaded = load(spark, table)
        if loaded.refs().containsKey(name):
            loaded.manageSnapshots().removeBranch(name).commit()

    retry_commit()(drop)


def replace_branch(spark: SparkSession, table: str, name: str, snapshot_id: int) -> None:
    """Move a branch to a snapshot, or create it there; `table` is the full name with the catalog."""

    def replace() -> None:
        loaded = load(spark, table)
        changes = loaded.manageSnapshots()
        known = loaded.refs().containsKey(name)
        (
            changes.replaceBranch(name, snapshot_id) if known else changes.createBranch(name, snapshot_id)
        ).commit()

    retry_commit()(replace)


def replace_main(spark: SparkSession, table: str, snapshot_id: int, expected: int) -> None:
    """Move main to a snapshot that is not based on it, if main is still at the expected snapshot.

    Args:
        spark: the session.
        table: the table's full name, with the catalog.
        snapshot_id: the new head.
        expected: the head that it replaces.

    Raises:
        PublishConflictError: main is at another snapshot.
    """

    def replace() -> None:
        operations = load(spark, table).operations()
        base = operations.current()
        if base.ref("main").snapshotId() != expected:
            raise PublishConflictError(f"{table}: main is not at {expected}, which was to be replaced")
        metadata = spark._jvm.org.apache.iceberg.TableMetadata  # type: ignore[union-attr]
        # It fails if another commit came in between.
        operations.commit(base, metadata.buildFrom(base).setBranchSnapshot(snapshot_id, "main").build())

    retry_commit()(replace)


def load(spark: SparkSession, table: str) -> JavaObject:
    """The table of Iceberg's Java API, by its full name with the catalog.

    Branches are changed by it: a SQL statement takes several times as long.
    """
    return _class(spark._jvm, "spark.Spark3Util").loadIcebergTable(spark._jsparkSession, table)


def drop_table(spark: SparkSession, table: str) -> None:
    """Drop a table of the lake, `<namespace>.<name>`, and delete its files.

    `drop table … purge` does the same with a Spark job for each table, which lists its files.
    """
    jvm, dropped = spark._jvm, load(spark, f"{CATALOG}.{table}")
    catalog = _class(jvm, "spark.Spark3Util").loadIcebergCatalog(spark._jsparkSession, CATALOG)
    catalog.dropTable(_class(jvm, "catalog.TableIdentifier").parse(table), False)
    _class(jvm, "CatalogUtil").dropTableData(dropped.io(), dropped.operations().current())


@lru_cache(maxsize=8)
def _class(jvm: Any, name: str) -> Any:
    """A class of Iceberg, by its name below org.apache.iceberg; looked up once, as Java searches all jars for each part."""
    return reduce(getattr, name.split("."), jvm.org.apache.iceberg)


def append(rows: DataFrame, table: Table, branch_name: str, properties: dict[str, str]) -> None:
    """Append rows to a branch in one commit with these snapshot properties; zero rows are committed too."""
    writer = (
        rows.select(*table.column_names).write.format("iceberg").mode("append").option("branch", branch_name)
    )
    for key, value in properties.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.save(table.full_name)


@contextmanager
def commit_with_properties(spark: SparkSession, properties: dict[str, str]) -> Iterator[None]:
    """Within the block every MERGE, INSERT and DELETE commits a snapshot with these properties."""
    conf = {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in properties.items()}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in conf:
            spark.conf.unset(key)


def merge_into_branch(
    source: DataFrame,
    table: Table,
    branch_name: str,
    condition: str,
    actions: str,
    properties: dict[str, str],
) -> None:
    """Run a MERGE into a branch in one commit with these snapshot properties.

    Args:
        source: the source rows; `s` in SQL.
        table: the target table; `t` in SQL.
        branch_name: the target branch.
        condition: SQL condition of a match.
        actions: the `when` clauses.
        properties: snapshot properties of the commit.
    """
    spark = source.sparkSession
    source.createOrReplaceTempView("merge_source")
    with commit_with_properties(spark, properties):
        target = f"{table.full_name}.branch_{branch_name}"
        spark.sql(f"merge into {target} t using merge_source s on {condition} {actions}")


def on_branch(spark: SparkSession, table: Table, branch_name: str) -> DataFrame:
    return spark.read.format("iceberg").option("branch", branch_name).load(table.full_name)


def branch_head(spark: SparkSession, table: Table, branch_name: str) -> int:
    """The snapshot id of a branch."""
    return int(load(spark, table.full_name).snapshot(branch_name).snapshotId())


def at_snapshot(spark: SparkSession, table: Table, snapshot_id: int | None) -> DataFrame:
    """The rows of a table at a snapshot, or of one without a snapshot; columns that were added since are NULL.

    Iceberg reads a snapshot with the schema of its time, and `tables.ensure` adds columns without a snapshot.
    """
    if snapshot_id is None:
        return spark.table(table.full_name)
    rows = spark.read.option("versionAsOf", snapshot_id).table(table.full_name)
    added = {c.name: F.lit(None).cast(c.type) for c in table.columns if c.name not in rows.columns}
    return rows.withColumns(added)


def fast_forward(spark: SparkSession, table: str, branch_name: str) -> None:
    """Fast-forward main to the head of the branch; a table without a main gets one.

    It can be repeated: the branch is left to its owner, and a main that is already there does not move.

    Args:
        spark: the session.
        table: the table's full name, with the catalog.
        branch_name: of the branch.

    Raises:
        PublishConflictError: main has moved since the branch was created.
    """

    def commit() -> None:
        load(spark, table).manageSnapshots().fastForwardBranch("main", branch_name).commit()

    try:
        retry_commit()(commit)
    except (PySparkException, Py4JJavaError) as error:
        if "not an ancestor" in str(error):
            raise PublishConflictError(f"{table}: main moved while {branch_name} was written") from error
        raise


def sql_with_retry(spark: SparkSession, statement: str, args: dict[str, Any] | None = None) -> list[Row]:
    """Run a statement that commits; retry on a commit conflict.

    Each attempt reads main again, so a fast-forward stays a compare-and-set.
    """
    return retry_commit()(lambda: spark.sql(statement, args).collect())


def retry_on_conflict() -> Retrying:
    """Repeat plan, write, audit and publish as a whole when another writer published or committed first."""
    return Retrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, PublishConflictError) or is_commit_conflict(error)
        ),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0.1, 2),
        reraise=True,
    )
