"""Remove what Airflow would keep for ever: old rows of its database, and old logs of tasks; once, or daily until SIGTERM.

`python -m deploy.airflow_cleanup --daily` is a component of `make up`, and a service of the containers. Airflow 3 gives tasks no
access to its database, so no DAG can do it. It needs Airflow's environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spark_jobs.settings import Settings, load_settings

DAY_SECONDS, POLL_SECONDS = 86_400.0, 60.0
# Not `dag`, and not `trigger`: the triggers of assets are as old as their DAGs, and Airflow removes the others itself.
TABLES = (
    *("asset_event", "callback", "dag_run", "dag_version", "deadline", "import_error", "job", "log"),
    *("revoked_token", "task_instance", "task_instance_history", "task_reschedule", "xcom"),
)
ROWS_OF_A_TRANSACTION = 10_000


@dataclass(frozen=True)
class Removed:
    """What was removed besides rows.

    Attributes:
        files: logs.
        bytes: their size.
    """

    files: int
    bytes: int


def clean_database(before: datetime) -> None:
    """Delete rows of finished runs, their tasks, and of events, that are older. The last run of each DAG is kept.

    Raises:
        subprocess.CalledProcessError: a table could not be cleaned; the output says which.
    """
    subprocess.run(
        [
            *(
                "airflow",
                "db",
                "clean",
                "--clean-before-timestamp",
                before.isoformat(),
                "--yes",
                "--skip-archive",
            ),
            *(
                "--tables",
                ",".join(TABLES),
                "--batch-size",
                str(ROWS_OF_A_TRANSACTION),
                "--error-on-cleanup-failure",
            ),
        ],
        check=True,
        capture_output=True,
        text=True,
    )


def remove_logs(folder: Path, before: datetime) -> Removed:
    """Remove files that were last written before, and folders that are empty then."""
    files = size = 0
    for path in _deepest_first(folder):
        try:
            if path.is_symlink() or path.is_file():
                found = path.lstat()
                if found.st_mtime < before.timestamp():
                    path.unlink()
                    files, size = files + 1, size + found.st_size
            elif path.stat().st_mtime < before.timestamp():
                path.rmdir()  # only if it is empty
        except OSError:  # a task writes into the folder, or another process has removed it
            continue
    return Removed(files, size)


def clean(logs: Path, days: int, now: datetime) -> Removed:
    """Remove rows and logs that are older than so many days.

    Raises:
        subprocess.CalledProcessError: a table could not be cleaned; the logs were removed.
    """
    before = now - timedelta(days=days)
    removed = remove_logs(logs, before)
    clean_database(before)
    return removed


def logs_folder() -> Path:
    """The folder of the logs of tasks, from Airflow's environment."""
    return Path(
        os.environ.get("AIRFLOW__LOGGING__BASE_LOG_FOLDER") or Path(os.environ["AIRFLOW_HOME"]) / "logs"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--daily", action="store_true", help="do it again every day")
    args = parser.parse_args()
    settings = load_settings()
    if not args.daily:
        return 0 if _clean_and_report(settings) else 1
    mark = (
        settings.home / "airflow" / "cleaned"
    )  # when it was done last, also by a process that has ended since
    mark.parent.mkdir(parents=True, exist_ok=True)
    if not mark.exists():
        mark.touch()
    while True:
        # A mark in the future was made before the clock was set back.
        if not 0 <= time.time() - mark.stat().st_mtime < DAY_SECONDS:
            if not _clean_and_report(settings):
                return 1  # the supervisor starts it again, and alerts if it ends again and again
            mark.touch()
        time.sleep(POLL_SECONDS)


def _clean_and_report(settings: Settings) -> bool:
    days, started = settings.cleanup.airflow_days, time.monotonic()
    try:
        removed = clean(logs_folder(), days, datetime.now(UTC))
    except subprocess.CalledProcessError as error:
        print(
            f"failed: airflow db clean ended with {error.returncode}:\n{(error.stdout + error.stderr)[-3000:]}",
            flush=True,
        )
        return False
    print(
        f"{datetime.now(UTC):%F %T} UTC: removed {removed.files} logs ({removed.bytes / 1e6:.1f} MB) and the rows of Airflow's "
        f"database that are older than {days} days, in {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return True


def _deepest_first(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder, topdown=False):
        yield from (Path(parent, name) for name in (*files, *folders))


if __name__ == "__main__":
    sys.exit(main())
