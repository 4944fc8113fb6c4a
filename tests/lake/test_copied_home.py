"""A copy of a lake names the files of the original: no job, page or command reads or writes there."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import run_once, up
from sandbox import demo
from spark_jobs.jobs.run import run_job
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.identity import WrongLakeError
from spark_jobs.settings import PROJECT, Settings
from tests.lake.conftest import state

ARGUMENTS = {
    "extract": ["--cluster", "c"],
    "replay": ["--from", "2026-11-20", "--to", "2026-11-21"],
    "reextract": ["--from", "2026-11-20", "--to", "2026-11-21"],
    "erase": ["--cluster", "c", "--key", "k", "--yes"],
    "reset_queue": ["--queue", "c/RMQ_SYS_TRACE_TOPIC/broker-a/0"],
    "retire_queue": ["--queue", "c/RMQ_SYS_TRACE_TOPIC/broker-a"],
}
# They make no use of a lake that exists; tests/backup has `restore`.
NO_JOBS = {"alert_test", "archive_classes", "restore"}
CLUSTERS = '[{"name": "c", "namesrv": ["127.0.0.1:1"]}]'


def jobs() -> list[str]:
    """Every module of `spark_jobs.jobs` with a `main`, so that a new job cannot escape."""
    files = (PROJECT / "spark_jobs" / "jobs").glob("*.py")
    return sorted({file.stem for file in files if "def main(" in file.read_text()} - NO_JOBS)


@pytest.fixture
def on_copy(copied: Settings, monkeypatch) -> Settings:
    monkeypatch.setenv("TRACE_HOME", str(copied.home))
    monkeypatch.setenv("TRACE_SETTINGS", str(PROJECT / "sandbox" / "demo.toml"))  # as `make demo` sets it
    monkeypatch.setenv("TRACE_CLUSTERS", CLUSTERS)
    return copied


def test_every_job_refuses_a_copy_and_changes_nothing(original, on_copy, capfd):
    assert {"extract", "merge", "marts", "maintain", "erase", "watchdog"} <= set(jobs())
    before = state(original.home), state(on_copy.home / "warehouse")
    arguments = ARGUMENTS | {name: ["--to", str(on_copy.home.parent / name)] for name in ("backup", "move")}
    for name in jobs():
        main = importlib.import_module(f"spark_jobs.jobs.{name}").main
        assert run_job(lambda main=main, name=name: main(arguments.get(name, []))) != 0, name
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("failed: ")]
        assert lines, name
        for line in lines:
            assert str(original.home) in line, f"{name}: it does not say where the original is"
            assert "docs/maintenance.md" in line, f"{name}: it does not say what to do"
        assert len(lines) == 1, f"{name} says it more than once"
    assert (state(original.home), state(on_copy.home / "warehouse")) == before


def test_maintenance_as_a_process(original, on_copy):
    """The job that deleted the original's files: no trace, one line, and no JVM was started."""
    before = state(original.home)
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.jobs.maintain"],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("failed: ")
    assert f"{original.home}/warehouse" in line
    assert "Use the original's TRACE_HOME, and remove the copy" in line
    assert state(original.home) == before


@pytest.mark.parametrize("command", ["run", "demo", "up"])
def test_the_pipeline_refuses_a_copy(original, on_copy, command):
    """Before a broker or Airflow is started."""
    before = state(original.home)
    calls = {
        "run": lambda: run_once.main([]),
        "demo": lambda: demo.main([]),
        "up": lambda: up.main(["up"]),
    }
    with pytest.raises(SystemExit, match="docs/maintenance.md"):
        calls[command]()
    assert state(original.home) == before
    assert not (on_copy.home / "airflow").exists()
    assert not (on_copy.home / "sandbox").exists()


def test_a_copy_over_the_same_files_is_refused(original, tmp_path):
    """Its warehouse is a link to that of the original, so all locations are right; its catalog is another."""
    home = tmp_path / "copy"
    home.mkdir()
    shutil.copy2(original.home / "catalog.db", home)
    (home / "warehouse").symlink_to(original.home / "warehouse")
    with pytest.raises(WrongLakeError, match="is a copy of"):
        lake(Settings(home=home))


@pytest.mark.parametrize("what", ["catalog row", "location", "view", "manifest list"])
def test_a_copy_that_was_corrected_in_part_is_refused(original, copied, what):
    """Where one table or view still names a place outside."""
    old, new = str(original.home), str(copied.home)
    with sqlite3.connect(copied.home / "catalog.db") as database:
        change = "replace(metadata_location, ?, ?)"
        database.execute(f"update iceberg_tables set metadata_location = {change}", (old, new))
        database.execute("delete from iceberg_namespace_properties where property_key = 'trace.lake'")
        if what == "catalog row":
            database.execute(
                "update iceberg_tables set metadata_location = replace(metadata_location, ?, ?) where table_name = 'alerts'",
                (new, old),
            )
    for file in copied.home.rglob("*.json"):
        packed = file.name.endswith(".gz.metadata.json")
        text = (gzip.decompress(file.read_bytes()) if packed else file.read_bytes()).decode()
        right = text.replace(old, new)
        match what:
            case "location" if "trace_messages/" in str(file):
                right = text
            case "view" if "some_view/" in str(file):
                right = text
            case "manifest list" if "trace_messages/" in str(file):
                right = text.replace(f'"location":"file:{old}', f'"location":"file:{new}')
        file.write_bytes(gzip.compress(right.encode()) if packed else right.encode())
    named = {"catalog row": "ops.alerts", "view": "staging.some_view"}.get(what, "raw.trace_messages")
    with pytest.raises(WrongLakeError, match=named):
        lake(copied)


def test_a_home_that_was_moved_and_linked_is_the_same_lake(original, tmp_path):
    """`mv old new && ln -s new old`: a job of the new place goes on in the tables. Moved alone it is refused."""
    old, new = tmp_path / "old", tmp_path / "new"
    environment = os.environ | {
        "PYTHONPATH": str(PROJECT),
        "TRACE_SPARK__CONF": json.dumps(original.spark.conf),
    }

    def merge(home: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "spark_jobs.jobs.merge"],
            env=environment | {"TRACE_HOME": str(home)},
            capture_output=True,
            text=True,
        )

    done = merge(old)
    assert done.returncode == 0, "a fresh home passes:\n" + done.stderr
    old.rename(new)
    moved = merge(new)
    assert moved.returncode == 1
    assert "move it back or mount it at its first path" in moved.stderr
    old.symlink_to(new)
    for home in (old, new):
        assert lake(Settings(home=home)).table_exists("raw.trace_messages")
    done = merge(new)
    assert done.returncode == 0, done.stderr


def test_the_lake_is_opened_at_two_places_alone():
    """So that nothing gets at it unverified. A restore and a move open a copy that nobody else may open yet."""
    folders = ("spark_jobs", "plugins", "provider", "deploy", "sandbox", "dags", "docs", "benchmarks")
    opened = {
        f"{file.relative_to(PROJECT)}: {how}"
        for folder in folders
        for file in (PROJECT / folder).rglob("*.py")
        for how in ("load_catalog(", "SparkSession.builder")
        if how in file.read_text()
    }
    assert opened == {
        "spark_jobs/backup/relocate.py: SparkSession.builder",
        "spark_jobs/lake/catalog.py: load_catalog(",
        "spark_jobs/lake/session.py: SparkSession.builder",
    }


def test_the_sensor_fails(on_copy):
    from plugins.trace_watcher import NewTraceMessagesTrigger

    with pytest.raises(WrongLakeError):
        NewTraceMessagesTrigger("c").found()
