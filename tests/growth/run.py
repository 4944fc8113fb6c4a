"""`python -m tests.growth.run [--days 7] [--day-minutes 12]`: what a running `make up` leaves behind in a compressed week.

All of `make up` runs beside a real broker with traffic. A day takes some minutes: its maintenance runs once in them, and the ages
of snapshots, rows and logs in the policies are divided by the same factor. After each maintenance everything is counted. Exits
with 1 if something grows after the days in which it fills up, or a run of maintenance failed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from deploy import airflow_cleanup
from deploy.airflow_environment import airflow_environment
from sandbox import steady
from sandbox.broker import rocketmq
from spark_jobs.maintenance.expiry import METADATA
from spark_jobs.settings import TABLE_POLICIES, Cluster, Serving, Settings, load_settings
from tests.growth.measures import MANIFESTS, METADATA_FILES, ROTATED, measures

DAY_SECONDS = 86_400
# Airflow's rows and logs are kept so long, so everything is full after three days.
KEPT_DAYS, FULL_AFTER = 2, 3
ALLOWED, RATE = 1.1, 20
INGEST_MINUTES = 4  # more than a run with a build takes on two cores
_console = Console(width=160, highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--day-minutes", type=int, default=12, choices=[12, 15, 20, 30], metavar="MINUTES")
    args = parser.parse_args()
    day = args.day_minutes * 60
    _console.print(f"{args.days} days of {day} s: policies are divided by {DAY_SECONDS / day:.0f}")
    home = load_settings().home
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="growth-", dir=home) as scratch, ExitStack() as stack:
        folder = Path(scratch)
        sandbox = stack.enter_context(rocketmq(folder / "rocketmq", stop_in_order=False))
        os.environ |= _environment(folder / "home", Cluster(name="growth", namesrv=[sandbox.namesrv]), day)
        settings = Settings()
        stack.enter_context(steady.traffic(sandbox.namesrv, "growth", RATE, folder / "clients"))
        stack.callback(_up, "down")
        _up("up")
        _console.print("all components answer")
        days, wrong = [], []
        for state in _maintained(settings, args.days):
            _clean(settings, day)
            days.append(measures(settings))
            counts = ", ".join(f"{name} {value:.1f}" for name, value in days[-1].items())
            _console.print(f"day {len(days)}: maintenance {state}; {counts}")
            if state != "success":
                wrong.append(f"maintenance of day {len(days)}: {state}")
    _show(days)
    wrong += growing(days)
    most = int(METADATA["write.metadata.previous-versions-max"]) + 1  # and the current one
    if days[-1][METADATA_FILES] > most:
        wrong.append(f"{METADATA_FILES}: {days[-1][METADATA_FILES]:.0f}, more than {most}")
    for line in wrong:
        _console.print(f"[bold red]wrong[/] {line}")
    _console.print(f"{len(wrong)} problems")
    return 1 if wrong else 0


def growing(days: list[dict[str, float]]) -> list[str]:
    """The measures whose last days exceed those just after everything was full, one line each.

    Logs that are rotated reach their sizes in weeks of real time; tests/unit/test_service.py rotates one. Previous metadata
    files and manifests are limited by number, which a real day reaches and a compressed one does not.
    """
    found = []
    for name in days[-1]:
        if name in (ROTATED, METADATA_FILES, MANIFESTS):
            continue
        values = [day.get(name, 0.0) for day in days]
        early, late = median(values[FULL_AFTER - 1 : FULL_AFTER + 1]), median(values[-2:])
        if late > ALLOWED * early + 1:  # a file or a row more is no growth
            found.append(f"{name}: {early:.1f} after day {FULL_AFTER}, {late:.1f} in the end")
    return found


def _environment(home: Path, cluster: Cluster, day: int) -> dict[str, str]:
    # Maintenance keeps the snapshots that a serving file shows, so those are deleted in the same clock. A real day has more
    # snapshots than `keep_snapshots`, a compressed one has fewer: the age alone decides in both.
    factor = day / DAY_SECONDS
    policies = [
        policy.model_copy(update={"snapshots_days": policy.snapshots_days * factor, "keep_snapshots": 1})
        for policy in TABLE_POLICIES
    ]
    return {
        "TRACE_HOME": str(home),
        "TRACE_CLUSTERS": json.dumps([cluster.model_dump(exclude_none=True)]),
        "TRACE_MAINTENANCE": json.dumps([policy.model_dump(exclude_none=True) for policy in policies]),
        "TRACE_SERVING__KEEP_MINUTES": str(Serving().keep_minutes * factor),
        "TRACE_SCHEDULES__MAINTENANCE": f"*/{day // 60} * * * *",
        # Each day has the same runs: with runs for each new message their number would depend on how busy the machine is.
        "TRACE_SCHEDULES__POLL_SECONDS": "0",
        "TRACE_SCHEDULES__INGEST": f"*/{INGEST_MINUTES} * * * *",
    }


def _up(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-m", "deploy.up", command, "--port", str(port)], capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"make {command}: {done.stdout}{done.stderr}")


def _maintained(settings: Settings, days: int) -> Iterator[str]:
    """Wait for each of so many runs of `trace_maintenance`; yields its state."""
    seen: set[str] = set()
    while len(seen) < days:
        time.sleep(2)
        database = settings.home / "airflow" / "airflow.db"
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
            ended = connection.execute(
                "select run_id, state from dag_run where dag_id = 'trace_maintenance' and state in ('success', 'failed') "
                "order by end_date"
            ).fetchall()
        for run, state in ended:
            if run not in seen:
                seen.add(run)
                yield state


def _clean(settings: Settings, day: int) -> None:
    """What the component `cleanup` does each day, for the compressed one."""
    os.environ |= airflow_environment(settings)
    now = datetime.now(UTC) - timedelta(seconds=KEPT_DAYS * day)
    airflow_cleanup.clean(airflow_cleanup.logs_folder(), 0, now)


def _show(days: list[dict[str, float]]) -> None:
    table = Table("after maintenance of day", *(str(day) for day in range(1, len(days) + 1)))
    for name in days[-1]:
        values = [day.get(name) for day in days]
        table.add_row(name, *("-" if value is None else f"{value:.1f}" for value in values))
    _console.print(table)


if __name__ == "__main__":
    sys.exit(main())
