"""A year of runs leaves as much behind as two months: Airflow's database and the logs of its tasks.

The rows are those of `make demo`, with shifted times.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy import airflow_cleanup
from tests.e2e.world import World
from tests.soak import IS_SOAK

KEPT_DAYS, RUNS_A_DAY = 30, 2
LOG_BYTES = 5_000  # of each log: the first ones
# Whole months in `make test`.
DAYS, STEP = (365, 5) if IS_SOAK else (120, 30)
# Table to the columns that are the run's, besides times.
TABLES = {
    "dag_run": ("run_id",),
    "task_instance": ("run_id",),
    "xcom": ("run_id",),
    "log": ("run_id",),
    "job": (),
    "asset_event": ("source_run_id",),
}


@pytest.fixture
def home(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of Airflow's home, in whose environment `airflow` runs."""
    copied = tmp_path / "airflow"
    shutil.copytree(world.settings.home / "airflow", copied)
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_HOME", str(copied))
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{copied / 'airflow.db'}")
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(copied / "logs"))
    return copied


class Template:
    """The rows and logs of the runs of a home, which are written again for other times."""

    def __init__(self, home: Path):
        self._database = sqlite3.connect(home / "airflow.db", isolation_level=None)
        self._database.execute("pragma foreign_keys = on")
        self._logs = home / "logs"
        self._columns = {
            table: self._database.execute(f"select name, type from pragma_table_info('{table}')").fetchall()
            for table in TABLES
        }
        self._rows = {table: self._database.execute(f"select * from {table}").fetchall() for table in TABLES}
        # The clean-up removes them, too.
        self._texts = {
            file.relative_to(self._logs): file.read_bytes()[:LOG_BYTES]
            for file in self._logs.rglob("*.log")
            if file.is_file()
        }
        assert self._rows["dag_run"]
        assert self._rows["task_instance"]
        self._written = max(datetime.fromisoformat(row[0]) for row in self._times("dag_run", "start_date"))

    def close(self) -> None:
        self._database.close()

    def counts(self) -> dict[str, int]:
        return {
            table: self._database.execute(f"select count(*) from {table}").fetchone()[0] for table in TABLES
        }

    def write(self, at: datetime) -> None:
        """The runs as if they had been at that time, with ids of their own."""
        suffix, shift = uuid.uuid4().hex[:8], at.replace(tzinfo=None) - self._written
        ids: dict[int, int] = {}
        self._database.execute("begin")
        for table, of_run in TABLES.items():
            for row in self._rows[table]:
                new = dict(zip((name for name, _ in self._columns[table]), row, strict=True))
                for name, kind in self._columns[table]:
                    if new[name] is not None and kind in ("TIMESTAMP", "DATETIME"):
                        moved = datetime.fromisoformat(new[name]) + shift
                        new[name] = moved.isoformat(" ", "microseconds")
                    elif name in of_run and new[name] is not None:
                        new[name] = f"{new[name]}~{suffix}"
                if table == "xcom":
                    new["dag_run_id"] = ids[new["dag_run_id"]]
                elif table == "task_instance":
                    new["id"] = uuid.uuid4().hex
                else:
                    old = new.pop("id")
                names = ", ".join(f'"{name}"' for name in new)
                marks = ", ".join("?" * len(new))
                done = self._database.execute(
                    f"insert into {table} ({names}) values ({marks})", [*new.values()]
                )
                if table == "dag_run":
                    assert done.lastrowid is not None
                    ids[old] = done.lastrowid
        self._database.execute("commit")
        for name, text in self._texts.items():
            written = self._logs / suffix / name
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(text)
            os.utime(written, (at.timestamp(), at.timestamp()))

    def _times(self, table: str, column: str) -> list[tuple[str]]:
        return self._database.execute(f"select {column} from {table} where {column} is not null").fetchall()


def size(home: Path) -> int:
    """Bytes of the database and of the logs."""
    files = [home / "airflow.db", *(file for file in (home / "logs").rglob("*") if file.is_file())]
    return sum(file.stat().st_size for file in files)


def test_after_a_year_there_is_no_more_than_after_two_months(home: Path):
    begin = datetime.now(UTC) + timedelta(days=1)
    with closing(Template(home)) as template:
        before, seconds = template.counts(), time.monotonic()
        sizes: dict[int, int] = {}
        for day in range(STEP, DAYS + 1, STEP):
            for run in range(STEP * RUNS_A_DAY):
                template.write(begin + timedelta(days=day - STEP, hours=24 / RUNS_A_DAY * run))
            airflow_cleanup.clean(home / "logs", KEPT_DAYS, begin + timedelta(days=day))
            sizes[day] = size(home)
        counts = template.counts()
        print(f"{DAYS} days in {time.monotonic() - seconds:.0f} s: bytes by day {sizes}, rows {counts}")
        written = DAYS * RUNS_A_DAY * before["task_instance"]
        assert 0 < counts["task_instance"] <= written * (KEPT_DAYS + STEP) / DAYS
        assert counts["dag_run"] >= KEPT_DAYS * RUNS_A_DAY, "those that are kept"
    assert sizes[max(sizes)] <= 1.1 * sizes[60]


def test_logs_that_are_written_and_other_files_are_kept(tmp_path: Path):
    old, new = tmp_path / "run_id=a" / "task_id=t", tmp_path / "run_id=b"
    for folder in (old, new):
        folder.mkdir(parents=True)
    now = datetime.now(UTC)
    long_ago = (now - timedelta(days=40)).timestamp()
    for file, at in ((old / "attempt=1.log", long_ago), (new / "attempt=1.log", now.timestamp())):
        file.write_text("a line\n")
        os.utime(file, (at, at))
    (tmp_path / "latest").symlink_to(new)
    for folder in (old, old.parent, new):
        os.utime(folder, (long_ago, long_ago))
    removed = airflow_cleanup.remove_logs(tmp_path, now - timedelta(days=30))
    assert (removed.files, removed.bytes) == (1, 7)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        *("latest", "run_id=a", "run_id=a/task_id=t", "run_id=b", "run_id=b/attempt=1.log")
    ]
