"""Maintenance windows: while a job holds a pool slot, the freshness alerts of the jobs that wait for it are silenced."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.alerts.repeated import repeated
from spark_jobs.lake.catalog import lake, retry_commit
from spark_jobs.lake.tables import MAINTENANCE_WINDOWS
from spark_jobs.settings import MaintenanceWindow, Settings

# Waiting jobs get this long to catch up, also after a crash: a job renews its window while it runs, up to a limit.
AFTER = timedelta(minutes=15)
RENEWED = timedelta(minutes=5)
LONGEST = timedelta(hours=3)


@contextmanager
def maintenance_window(settings: Settings, checks: Iterable[str], run_id: str) -> Iterator[None]:
    """Silence new alerts of these checks until some time after the block; alerts that are still open then are sent.

    Args:
        settings: of the lake.
        checks: names of checks.
        run_id: of the job; written to the table.
    """
    window_id, start = uuid.uuid4().hex, datetime.now(UTC)

    def write() -> None:
        rows = [
            {
                "window_id": window_id,
                "starts_at": start,
                "ends_at": datetime.now(UTC) + AFTER,
                "match": f"*:{check}*",
                "run_id": run_id,
            }
            for check in checks
        ]
        for attempt in retry_commit():
            with attempt:
                table = lake(settings).load_table(MAINTENANCE_WINDOWS.name)
                schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
                table.overwrite(pa.Table.from_pylist(rows, schema=schema), f"window_id = '{window_id}'")

    def renew() -> None:
        if datetime.now(UTC) < start + LONGEST:
            write()

    write()
    try:
        with repeated(renew, RENEWED.total_seconds(), "renewing a maintenance window"):
            yield
    finally:
        write()


def with_job_windows(settings: Settings, now: datetime) -> Settings:
    """The settings with the maintenance windows of the lake that are not over."""
    table = lake(settings).load_table(MAINTENANCE_WINDOWS.name)
    rows = table.scan(f"ends_at > '{now.isoformat()}'").to_arrow().to_pylist()
    found = [
        MaintenanceWindow(start=row["starts_at"], end=row["ends_at"], match=row["match"]) for row in rows
    ]
    alerts = settings.alerts.model_copy(update={"maintenance": [*settings.alerts.maintenance, *found]})
    return settings.model_copy(update={"alerts": alerts})
