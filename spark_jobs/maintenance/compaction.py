"""Rewrite small files and many manifests; what the books say stays on main's newest snapshot.

A compaction is published as everything else is: on a branch, with the books of the snapshot that it starts from, by a
compare-and-set. Iceberg would put the rewritten files on whatever main has become meanwhile: with books that an
extraction has left behind, and the next one would read a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.lake import catalog, publish
from spark_jobs.lake.offsets import RUN_ID
from spark_jobs.lake.session import CATALOG
from spark_jobs.lake.tables import Column, Table
from spark_jobs.maintenance.state import MB, SMALL
from spark_jobs.settings import Settings, TablePolicy


@dataclass(frozen=True)
class Compacted:
    """Files that were rewritten, the bytes in them, and the files that came of it."""

    files: int = 0
    size: int = 0
    into: int = 0


def compact(
    spark: SparkSession, settings: Settings, name: str, policy: TablePolicy, run_id: str
) -> Compacted:
    """Rewrite the partitions of a table that have enough small files, sorted where the table is.

    Raises:
        publish.PublishConflictError: another writer was first; nothing is changed.
        publish.AuditError: the branch has another number of rows than main.
    """
    table = _table(spark, name)
    head = catalog.head(settings, table)
    if head is None:
        return Compacted()
    properties = catalog.trace_properties(settings, name) | {RUN_ID: run_id}
    with publish.branch(spark, table, "compact", head) as branch:
        loaded = _loaded(spark, table)
        action = _actions(spark).rewriteDataFiles(loaded).toBranch(branch)
        action = action.sort() if loaded.sortOrder().isSorted() else action.binPack()
        target = policy.target_file_mb * MB
        options: dict[str, int | None] = {
            "target-file-size-bytes": target,
            "min-file-size-bytes": int(SMALL * target),
            "max-file-size-bytes": 2 * target,
            "min-input-files": policy.compact_files,
        }
        for option, number in options.items():
            action = action.option(option, str(number))
        for key, value in properties.items():
            action = action.snapshotProperty(key, value)
        done = action.execute()
        found = Compacted(
            done.rewrittenDataFilesCount(), done.rewrittenBytesCount(), done.addedDataFilesCount()
        )
        if found.files:
            _audit(spark, table, branch, head)
            publish.fast_forward(spark, table.full_name, branch)
    return found


def rewrite_manifests(spark: SparkSession, settings: Settings, name: str, run_id: str) -> int:
    """Write the manifests of a table anew, without entries of deleted files; returns how many there were.

    Iceberg does this on main only. Its commit changes no row and carries no books, as it may come after another
    writer's; they follow in a commit of their own.
    """
    table = _table(spark, name)
    before = spark.table(f"{table.full_name}.manifests").count()
    if before:
        for attempt in publish.retry_commit():
            with attempt:
                _actions(spark).rewriteManifests(_loaded(spark, table)).execute()
        carry_offsets(spark, settings, name, run_id)
    return before


def carry_offsets(spark: SparkSession, settings: Settings, name: str, run_id: str) -> None:
    """Publish the books again where main's newest snapshot carries none: older ones may be expired then."""
    for attempt in publish.retry_on_conflict():
        with attempt:
            table = _table(spark, name)
            snapshot = catalog.lake(settings).load_table(name).current_snapshot()
            committed = catalog.trace_properties(settings, name)
            carried = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
            if snapshot is None or committed.items() <= carried.items():
                return
            with publish.branch(spark, table, "carry", snapshot.snapshot_id) as branch:
                nothing = spark.table(table.full_name).limit(0)
                publish.append(nothing, table, branch, committed | {RUN_ID: run_id})
                publish.fast_forward(spark, table.full_name, branch)


def _table(spark: SparkSession, name: str) -> Table:
    """The table of that name, with the columns that it has now; those of the models dbt defines."""
    fields = spark.table(f"{CATALOG}.{name}").schema
    return Table(name, "", tuple(Column(f.name, f.dataType.simpleString(), "") for f in fields))


def _audit(spark: SparkSession, table: Table, branch: str, head: int) -> None:
    before = spark.read.option("versionAsOf", head).table(table.full_name).count()
    after = publish.on_branch(spark, table, branch).count()
    if before != after:
        raise publish.AuditError(
            f"{table.full_name}: {before} rows before the compaction, {after} on branch {branch} after it. "
            "Nothing was published; the table is as it was"
        )


def _actions(spark: SparkSession) -> Any:
    # The procedures of SQL take no snapshot properties.
    return spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)  # type: ignore[union-attr]


def _loaded(spark: SparkSession, table: Table) -> Any:
    java = spark._jvm.org.apache.iceberg.spark  # type: ignore[union-attr]
    return java.Spark3Util.loadIcebergTable(spark._jsparkSession, table.full_name)
