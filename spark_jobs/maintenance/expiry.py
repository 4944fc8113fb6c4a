"""Remove branches of killed runs, old snapshots, orphan files and old metadata files."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from spark_jobs.lake import publish
from spark_jobs.maintenance.state import State
from spark_jobs.settings import CATALOG, Settings

# Every commit writes a metadata file; by default Iceberg keeps all of them.
METADATA = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def drop_left_branches(spark: SparkSession, state: State) -> None:
    """Drop the branches of runs that were killed; their snapshots expire with the others."""
    for branch in state.left_branches:
        publish.drop_branch(spark, f"{CATALOG}.{state.table}", branch)


def expire_snapshots(spark: SparkSession, table: str, older_than: datetime, keep: int) -> int:
    """Expire snapshots of main older than a time, except the newest `keep`; return the number of deleted files.

    The head of a branch is kept, whatever its age, so a running publication loses nothing.
    """
    (counts,) = publish.sql_with_retry(
        spark,
        f"call {CATALOG}.system.expire_snapshots(table => '{CATALOG}.{table}', "
        f"older_than => {_literal(older_than)}, retain_last => {keep})",
    )
    return sum(counts)


def remove_orphans(
    spark: SparkSession, settings: Settings, table: str, older_than: datetime, dry_run: bool = False
) -> int:
    """Delete orphan files, which no snapshot references; return their number, also for a dry run.

    A new file may belong to a running commit, so Iceberg rejects an `older_than` of less than a day ago.
    """
    # Hadoop, which Iceberg lists files with otherwise, has no file system for s3://.
    listing = ", prefix_listing => true" if settings.warehouse.is_s3 else ""
    return spark.sql(
        f"call {CATALOG}.system.remove_orphan_files(table => '{CATALOG}.{table}', older_than => {_literal(older_than)}, "
        f"dry_run => {str(dry_run).lower()}{listing})"
    ).count()


def keep_few_metadata_files(spark: SparkSession, table: str) -> None:
    """Set the table property that makes each commit delete old metadata files."""
    rows = spark.sql(f"show tblproperties {CATALOG}.{table}").collect()
    if METADATA.items() <= {row.key: row.value for row in rows}.items():
        return
    listed = ", ".join(f"'{key}'='{value}'" for key, value in METADATA.items())
    publish.sql_with_retry(spark, f"alter table {CATALOG}.{table} set tblproperties ({listed})")


def _literal(moment: datetime) -> str:
    return f"timestamp '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
