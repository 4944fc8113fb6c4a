"""Maintenance windows in `lake.ops.maintenance_windows`, without Spark: alerts that open in one are sent at its end.

While a job holds a pool slot, the freshness alerts of the jobs that wait for it are silenced; `make maintenance-window` silences
any. The settings have further windows (`alerts.maintenance`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True)
class Window:
    """A row of `lake.ops.maintenance_windows`, whose columns have the same names; times are UTC."""

    window_id: str
    starts_at: datetime
    ends_at: datetime
    match: str
    run_id: str


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
        end = datetime.now(UTC) + AFTER
        _write(settings, [Window(window_id, start, end, f"*:{check}*", run_id) for check in checks])

    def renew() -> None:
        if datetime.now(UTC) < start + LONGEST:
            write()

    write()
    try:
        with repeated(renew, RENEWED.total_seconds(), "renewing a maintenance window"):
            yield
    finally:
        write()


def windows(settings: Settings, now: datetime) -> list[Window]:
    """The windows of the lake that are not over, by their ends."""
    table = lake(settings).load_table(MAINTENANCE_WINDOWS.name)
    rows = table.scan(f"ends_at > '{now.isoformat()}'").to_arrow().to_pylist()
    return sorted((Window(**row) for row in rows), key=lambda window: (window.ends_at, window.match))


def begin(settings: Settings, match: str, end: datetime, run_id: str) -> Window:
    """Silence, from now to the end, new alerts whose identity has the pattern (*, ?)."""
    window = Window(uuid.uuid4().hex, datetime.now(UTC), end, match, run_id)
    _write(settings, [window])
    return window


def end(settings: Settings, window: Window, now: datetime) -> None:
    """End a window of one pattern: alerts that it silences, and that are still open, are sent."""
    _write(settings, [replace(window, ends_at=now)])


def _write(settings: Settings, rows: list[Window]) -> None:
    """Replace the rows of a window."""
    for attempt in retry_commit():
        with attempt:
            table = lake(settings).load_table(MAINTENANCE_WINDOWS.name)
            schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            written = pa.Table.from_pylist([asdict(row) for row in rows], schema=schema)
            table.overwrite(written, f"window_id = '{rows[0].window_id}'")


def with_job_windows(settings: Settings, now: datetime) -> Settings:
    """The settings with the maintenance windows of the lake that are not over."""
    found = [
        MaintenanceWindow(start=each.starts_at, end=each.ends_at, match=each.match)
        for each in windows(settings, now)
    ]
    alerts = settings.alerts.model_copy(update={"maintenance": [*settings.alerts.maintenance, *found]})
    return settings.model_copy(update={"alerts": alerts})
