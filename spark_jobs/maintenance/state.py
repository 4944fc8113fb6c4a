"""The state of a table, and what of it the policy would change."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb
from pyiceberg.table import Table as Metadata
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.lake import catalog
from spark_jobs.lake.publish import created_at
from spark_jobs.serving.contents import needed_snapshots
from spark_jobs.settings import CATALOG, Settings, TablePolicy

MB = 1024 * 1024
# Iceberg's default: a file below this share of the target size is small.
SMALL = 0.75


@dataclass(frozen=True)
class State:
    """The main branch of a table, and what is due for maintenance.

    Attributes:
        files: number of data and delete files.
        size: their bytes.
        to_compact: number of small files in partitions that have enough of them.
        to_compact_size: their bytes.
        manifests: number of manifest files.
        snapshots: number of live snapshots.
        to_expire: number of snapshots older than the policy keeps.
        left_branches: branches of runs that were killed.
    """

    table: str
    files: int
    size: int
    to_compact: int
    to_compact_size: int
    manifests: int
    snapshots: int
    to_expire: int
    left_branches: tuple[str, ...]


def state_of(
    spark: SparkSession, settings: Settings, table: str, policy: TablePolicy, now: datetime
) -> State:
    """Read the state of a table (name without the catalog) at a time."""
    metadata = catalog.lake(settings).load_table(table)
    return State(
        table,
        *_files(spark, table, policy),
        manifests=spark.table(f"{CATALOG}.{table}.manifests").count(),
        snapshots=len(metadata.metadata.snapshots),
        to_expire=_expirable(metadata, policy, expire_before(settings, metadata, policy, now)),
        left_branches=tuple(
            name for name in metadata.refs() if is_left_behind(name, now - timedelta(days=policy.safe_days))
        ),
    )


def is_left_behind(branch: str, before: datetime) -> bool:
    """Whether a branch belongs to a publication that was started before a time and so no longer runs."""
    created = created_at(branch)
    return created is not None and created < before


def _files(spark: SparkSession, table: str, policy: TablePolicy) -> tuple[int, int, int, int]:
    """Number and bytes of all files, then of those to compact."""
    files = spark.table(f"{CATALOG}.{table}.files")
    partition = ["partition"] if "partition" in files.columns else []
    size = F.col("file_size_in_bytes")
    small = size < SMALL * policy.target_file_mb * MB
    of_partition = files.groupBy(*partition).agg(
        F.count("*").alias("files"),
        F.coalesce(F.sum(size), F.lit(0)).alias("size"),
        F.count_if(small).alias("small"),
        F.coalesce(F.sum(F.when(small, size)), F.lit(0)).alias("small_size"),
    )
    due = F.col("small") >= F.lit(policy.compact_files)
    counts = [F.col("files"), F.col("size"), F.when(due, F.col("small")), F.when(due, F.col("small_size"))]
    sums = of_partition.agg(*[F.coalesce(F.sum(count), F.lit(0)) for count in counts]).collect()[0]
    return sums[0], sums[1], sums[2], sums[3]


def expire_before(settings: Settings, metadata: Metadata, policy: TablePolicy, now: datetime) -> datetime:
    """The time before which snapshots are expired: that of the policy, but before all that a serving file shows."""
    try:
        needed = needed_snapshots(settings, ".".join(metadata.name()))
    except duckdb.Error as error:
        print(f"no snapshot is expired: a serving file cannot be read ({error})", file=sys.stderr, flush=True)
        return datetime.fromtimestamp(0, UTC)
    shown = [s.timestamp_ms / 1000 for s in metadata.metadata.snapshots if s.snapshot_id in needed]
    times = [datetime.fromtimestamp(at, UTC) for at in shown]
    return min([now - timedelta(days=policy.snapshots_days), *times])


def _expirable(metadata: Metadata, policy: TablePolicy, before: datetime) -> int:
    """Number of snapshots that Iceberg would expire: before a time, and not among the newest of a branch."""
    oldest = before.timestamp() * 1000
    kept: set[int] = set()
    for ref in metadata.refs().values():
        history = ancestors_of(metadata.snapshot_by_id(ref.snapshot_id), metadata.metadata)
        for rank, snapshot in enumerate(history):
            if rank >= policy.keep_snapshots and snapshot.timestamp_ms < oldest:
                break
            kept.add(snapshot.snapshot_id)
    return sum(s.snapshot_id not in kept and s.timestamp_ms < oldest for s in metadata.metadata.snapshots)
