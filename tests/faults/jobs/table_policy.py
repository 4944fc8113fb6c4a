"""Maintenance as the tests of the jobs run it: everything is old at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.maintenance.table import MaintenanceResult, maintain_table
from spark_jobs.settings import TablePolicy
from tests.faults.jobs.world import World

STRICT = TablePolicy(tables="*", compact_files=3, max_manifests=5, snapshots_days=0, keep_snapshots=2)


def maintain(world: World, policy: TablePolicy = STRICT) -> list[MaintenanceResult]:
    """Compact, expire and clean up raw and events."""
    now = datetime.now(UTC) + timedelta(seconds=1)
    return [
        maintain_table(world.spark, world.settings, table.name, policy, now, "upkeep")
        for table in (RAW, EVENTS)
    ]
