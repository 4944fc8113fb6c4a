"""Rewrite small data files and many manifests; the committed offsets stay on the newest snapshot of main.

A compaction is published like any other commit: on a branch, with the snapshot properties of the snapshot that it starts
from, by a compare-and-set. Iceberg alone would commit the rewritten files on top of a newer main with the older offsets,
so that the next extraction would read messages a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.lake import catalog, publish
from spark_jobs.lake.offsets import RUN_ID
from spark_jobs.lake.tables import Column, Table
from spark_jobs.maintenance.state import MB, SMALL
from spark_jobs.settings import CATALOG, Settings, TablePolicy


@dataclass(frozen=True)
class Compacted:
    """The number of rewritten files, their bytes, and the number of new files."""

    files: int = 0
    size: int = 0
    into: int = 0


def compact(
    spark: SparkSession, settings: Settings, name: str, policy: TablePolicy, run_id: str
) -> Compacted:
    """Rewrite the partitions of a table that have enough small files, by the table's sort order if it has one.

    Raises:
        publish.PublishConflictError: another writer published first; nothing is changed.
        publish.AuditError: the branch and main have different numbers of rows.
    """
    table = _table(spark, name)
    head = catalog.head(settings, table)
    if head is None:
        return Compacted()
    properties = catalog.trace_properties(settings, name) | {RUN_ID: run_id}
    with publish.branch(spark, table, "compact", head) as branch:
        loaded = publish.load(spark, table.full_name)
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
    """Rewrite the manifests of a table, without entries of deleted files; return how many there were.

    Iceberg does this on main only. Its commit changes no row and has no committed offsets, as it may follow another
    writer's commit; they are committed separately.
    """
    table = _table(spark, name)
    before = spark.table(f"{table.full_name}.manifests").count()
    if before:
        publish.retry_commit()(
            lambda: _actions(spark).rewriteManifests(publish.load(spark, table.full_name)).execute()
        )
        carry_offsets(spark, settings, name, run_id)
    return before


def carry_offsets(spark: SparkSession, settings: Settings, name: str, run_id: str) -> None:
    """Commit the offsets again if the newest snapshot of main has none, so that older snapshots may expire."""
    for attempt in publish.retry_on_conflict():
        with attempt:
            table = _table(spark, name)
            snapshot = catalog.lake(settings).load_table(name).current_snapshot()
            committed = catalog.trace_properties(settings, name)
            carried = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
            if snapshot is None or committed.items() <= carried.items():
                return
            with publish.write_audit_publish(spark, table, "carry", snapshot.snapshot_id) as branch:
                nothing = spark.table(table.full_name).limit(0)
                publish.append(nothing, table, branch, committed | {RUN_ID: run_id})


def _table(spark: SparkSession, name: str) -> Table:
    """The table of that name with its present columns; the tables of models are defined by dbt."""
    fields = spark.table(f"{CATALOG}.{name}").schema
    return Table(name, "", tuple(Column(f.name, f.dataType.simpleString(), "") for f in fields))


def _audit(spark: SparkSession, table: Table, branch: str, head: int) -> None:
    before = publish.at_snapshot(spark, table, head).count()
    after = publish.on_branch(spark, table, branch).count()
    if before != after:
        raise publish.AuditError(
            f"{table.full_name}: {before} rows before the compaction, {after} on branch {branch} after it. "
            "Nothing was published; the table is as it was"
        )


def _actions(spark: SparkSession) -> Any:
    # The SQL procedures do not accept snapshot properties.
    return spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)  # type: ignore[union-attr]
