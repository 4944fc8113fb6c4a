"""Maintain one table by its policy: retention, compaction, expiry, orphan files, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from spark_jobs.lake import catalog, publish
from spark_jobs.maintenance import compaction, expiry
from spark_jobs.maintenance.compaction import Compacted
from spark_jobs.maintenance.retention import Dropped, drop_old_rows
from spark_jobs.maintenance.state import State, expire_before, state_of
from spark_jobs.settings import CATALOG, Settings, TablePolicy


@dataclass(frozen=True)
class MaintenanceResult:
    """What was done to a table, or would be.

    Attributes:
        state: the table before.
        dropped: rows deleted by retention.
        compacted: rewritten data files.
        manifests: rewritten manifests.
        expired: expired snapshots.
        orphans: orphan files.
        refused: three attempts conflicted with other writers; the next run does the rest.
    """

    state: State
    dropped: Dropped | None = None
    compacted: Compacted = Compacted()
    manifests: int = 0
    expired: int = 0
    orphans: int = 0
    refused: str | None = None


def maintain_table(
    spark: SparkSession,
    settings: Settings,
    table: str,
    policy: TablePolicy,
    now: datetime,
    run_id: str,
    dry_run: bool = False,
) -> MaintenanceResult:
    """Maintain a table (name without the catalog) by its policy; a dry run changes nothing.

    Raises:
        NotMergedError, publish.AuditError: the table is not as expected; nothing that is needed was removed.
    """
    state = state_of(spark, settings, table, policy, now)
    safe = now - timedelta(days=policy.safe_days)
    if dry_run:
        return MaintenanceResult(
            state,
            drop_old_rows(spark, settings, table, policy, now, run_id, dry_run=True),
            Compacted(state.to_compact, state.to_compact_size),
            _manifests_due(state, policy),
            state.to_expire,
            expiry.remove_orphans(spark, settings, table, safe, dry_run=True),
        )
    dropped, compacted, refused = None, Compacted(), None
    try:
        retry = publish.retry_on_conflict()
        dropped = retry(drop_old_rows, spark, settings, table, policy, now, run_id)
        if state.to_compact:
            compacted = retry(compaction.compact, spark, settings, table, policy, run_id)
        manifests = _manifests_due(state, policy)
        if manifests:
            compaction.rewrite_manifests(spark, settings, table, run_id)
        compaction.carry_offsets(spark, settings, table, run_id)
    except publish.PublishConflictError as error:
        manifests, refused = 0, str(error)
    expiry.drop_left_branches(spark, state)
    expired = 0
    if not refused:  # the snapshot with the committed offsets may be due for expiry
        expired = _expire(spark, settings, table, policy, now)
    expiry.keep_few_metadata_files(spark, table)
    return MaintenanceResult(
        state,
        dropped,
        compacted,
        manifests,
        expired,
        expiry.remove_orphans(spark, settings, table, safe),
        refused,
    )


def tables_of(spark: SparkSession, settings: Settings, pool: str | None) -> list[tuple[str, TablePolicy]]:
    """The tables of the lake with their policies: those whose writers use the Airflow pool, or all."""
    namespaces = sorted(row[0] for row in spark.sql(f"show namespaces in {CATALOG}").collect())
    names = [
        f"{namespace}.{row.tableName}"
        for namespace in namespaces
        for row in spark.sql(f"show tables in {CATALOG}.{namespace}").orderBy("tableName").collect()
    ]
    found = [(name, settings.table_policy(name)) for name in names]
    return [(name, policy) for name, policy in found if pool in (None, policy.pool)]


def _manifests_due(state: State, policy: TablePolicy) -> int:
    limit = policy.max_manifests
    return state.manifests if limit is not None and state.manifests > limit else 0


def _expire(spark: SparkSession, settings: Settings, table: str, policy: TablePolicy, now: datetime) -> int:
    due = state_of(spark, settings, table, policy, now).to_expire
    if due:
        older_than = expire_before(settings, catalog.lake(settings).load_table(table), policy, now)
        expiry.expire_snapshots(spark, table, older_than, policy.keep_snapshots)
    return due
