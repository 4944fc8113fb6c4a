"""Remove what nobody reads any more: branches of dead runs, old snapshots, files that no snapshot has, old metadata."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from spark_jobs.lake import publish
from spark_jobs.lake.session import CATALOG
from spark_jobs.maintenance.state import State

# A commit writes a metadata file; Iceberg keeps them all, unless it is told otherwise.
METADATA = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def drop_left_branches(spark: SparkSession, state: State) -> None:
    """Drop the branches that runs left behind which died; their snapshots expire with the others."""
    for branch in state.left_branches:
        publish.drop_branch(spark, f"{CATALOG}.{state.table}", branch)


def expire_snapshots(spark: SparkSession, table: str, older_than: datetime, keep: int) -> int:
    """Expire snapshots of main older than a time, but for the newest `keep`; returns how many files went with them.

    What a branch is at stays, whatever its age, so a publication that is under way loses nothing.
    """
    for attempt in publish.retry_commit():
        with attempt:
            done = spark.sql(
                f"call {CATALOG}.system.expire_snapshots(table => '{CATALOG}.{table}', "
                f"older_than => {_literal(older_than)}, retain_last => {keep})"
            ).collect()[0]
    return sum(done.asDict().values())


def remove_orphans(spark: SparkSession, table: str, older_than: datetime, dry_run: bool = False) -> int:
    """Delete files below the table's folder that no snapshot has; returns how many there are, or were.

    A young one may be about to get its snapshot, so Iceberg refuses an `older_than` of less than a day ago.
    """
    return spark.sql(
        f"call {CATALOG}.system.remove_orphan_files(table => '{CATALOG}.{table}', older_than => {_literal(older_than)}, "
        f"dry_run => {str(dry_run).lower()})"
    ).count()


def keep_few_metadata_files(spark: SparkSession, table: str) -> None:
    """Let each commit delete the metadata file that is no longer among the newest."""
    rows = spark.sql(f"show tblproperties {CATALOG}.{table}").collect()
    if METADATA.items() <= {row.key: row.value for row in rows}.items():
        return
    listed = ", ".join(f"'{key}'='{value}'" for key, value in METADATA.items())
    for attempt in publish.retry_commit():
        with attempt:
            spark.sql(f"alter table {CATALOG}.{table} set tblproperties ({listed})")


def _literal(moment: datetime) -> str:
    return f"timestamp '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
