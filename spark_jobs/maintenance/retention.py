"""Retention: delete rows older than the policy keeps, in whole days, recorded before they are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from spark_jobs.lake import catalog, publish
from spark_jobs.lake.offsets import RUN_ID, read_offsets
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.tables import ALL, EVENTS, RAW, RETENTION
from spark_jobs.settings import CATALOG, Settings, TablePolicy
from spark_jobs.trace.merge import pending


class NotMergedError(Exception):
    """Messages that retention would delete from raw are not in events yet."""


@dataclass(frozen=True)
class Dropped:
    """The number of rows older than `before` (UTC, naive) that were deleted, or would be."""

    before: datetime
    rows: int


def dropped_before(settings: Settings, table: str) -> datetime | None:
    """The time before which retention has deleted the rows of a table (name without the catalog), UTC, naive."""
    rows = catalog.lake(settings).load_table(RETENTION.name).scan().to_arrow().to_pylist()
    times = [row["before"] for row in rows if row["table_name"] == table]
    return max(times).astimezone(UTC).replace(tzinfo=None) if times else None


def drop_old_rows(
    spark: SparkSession,
    settings: Settings,
    name: str,
    policy: TablePolicy,
    now: datetime,
    run_id: str,
    dry_run: bool = False,
) -> Dropped | None:
    """Delete the rows of whole days before `now - retention_days`; None if the policy keeps all or nothing is that old.

    Rows without a time are kept. Committed offsets and `change_seq` do not change.

    Raises:
        NotMergedError: raw would lose messages that events does not have.
        publish.PublishConflictError: another writer published first; nothing is deleted.
    """
    if policy.retention_days is None:
        return None
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    before = midnight - timedelta(days=policy.retention_days)
    table = next(table for table in ALL if table.name == name)
    head = catalog.head(settings, table)
    # Without the first condition, Iceberg's delete of whole files takes a partition of NULL for one that is older.
    column = policy.retention_column
    old = f"{column} is not null and {column} < timestamp '{before}'"
    rows = spark.table(table.full_name).where(old).count()
    if head is None or not rows:
        return None
    if dry_run:
        return Dropped(before, rows)
    if table == RAW:
        _raise_if_unmerged(spark, settings, old)
    properties = catalog.trace_properties(settings, name) | {RUN_ID: run_id}
    _record_retention(spark, name, before, rows, now, run_id)
    with publish.write_audit_publish(spark, table, "retention", head) as branch:
        spark.sql(f"delete from {CATALOG}.{name}.branch_{branch} where {old}")
        # A delete of whole files does not accept snapshot properties.
        publish.append(spark.table(table.full_name).limit(0), table, branch, properties)
    return Dropped(before, rows)


def _raise_if_unmerged(spark: SparkSession, settings: Settings, old: str) -> None:
    todo = pending(
        read_offsets(spark, settings, RAW).positions, read_offsets(spark, settings, EVENTS).positions
    )
    lost = rows_in(spark.table(RAW.full_name), todo).where(old).count()
    if lost:
        raise NotMergedError(
            f"{RAW.full_name}: {lost} messages are old enough to be dropped and are not in {EVENTS.full_name} yet. "
            "Nothing was dropped; run the merge (DAG trace_ingest) first"
        )


def _record_retention(
    spark: SparkSession, name: str, before: datetime, rows: int, now: datetime, run_id: str
) -> None:
    """Merge by table and time, so that a retry records nothing twice."""
    spark.sql(
        f"""
        merge into {RETENTION.full_name} t
        using (
          select
            '{name}' as table_name,
            timestamp '{before}' as before,
            {rows}L as row_count,
            timestamp '{now.astimezone(UTC):%Y-%m-%d %H:%M:%S}' as dropped_at,
            :run_id as run_id
        ) s
        on t.table_name = s.table_name and t.before = s.before
        when not matched then insert *
        """,
        args={"run_id": run_id},
    )
