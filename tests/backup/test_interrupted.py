"""Backups and restores that are killed, and backups while jobs publish. Runs in `make soak`."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from spark_jobs.backup import contents, folder, make
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import identity, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import Settings
from tests.backup.world import files, job, started, state
from tests.maintenance.files import holding
from tests.spark.stored import messages, planned, write


def kill_when(reached: Callable[[], bool], name: str, home: Path, *arguments: str | Path) -> None:
    """Start a job, and end it with SIGKILL when a moment is reached; its child processes must end by themselves."""
    process = started(name, home, *arguments)
    while not reached():
        assert process.poll() is None, f"{name} ended before the moment: {process.communicate()}"
        time.sleep(0.002)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    assert psutil.wait_procs(children, timeout=30)[1] == []


def in_files(root: Path) -> int:
    return sum(path.is_file() for path in (root / "files").rglob("*"))


@pytest.mark.parametrize("moment", ["catalog", "some files", "all files", "state"])
def test_a_killed_back_up_is_none_and_the_next_is_whole(original, tmp_path, moment):
    root, complete = tmp_path / "backups", len(contents_of(original))
    reached = {
        "catalog": lambda: any(root.glob(f"*/{make.CATALOG_FILE}")),
        "some files": lambda: in_files(root) >= complete // 2,
        "all files": lambda: in_files(root) >= complete,
        "state": lambda: any(root.glob("*/home")),
    }[moment]
    # Copying it takes long enough for the signal to arrive before the end.
    large = original.home / "large"
    large.write_bytes(bytes(1 << 28))
    try:
        kill_when(reached, "backup", original.home, "--to", root)
    finally:
        large.unlink()
    assert folder.folders_of(root) == []
    refused = job("restore", tmp_path / "home", "--from", root)
    assert "has no complete backup" in refused.stderr
    done = job("backup", original.home, "--to", root)
    assert done.returncode == 0, done.stderr
    assert len(list(root.glob(f"*/{make.CATALOG_FILE}"))) == 1
    restored = job("restore", tmp_path / "home", "--from", root)
    assert restored.returncode == 0, restored.stderr
    assert state(Settings(home=tmp_path / "home")) == state(original)


def contents_of(settings: Settings) -> set[str]:
    """The files that the tables of a lake name."""
    found: set[str] = set()
    for table in contents.tables_of(settings.home / "catalog.db"):
        contents.read_files(table)
        found |= table.files.keys()
    return found


@pytest.mark.parametrize("moment", ["some files", "paths begun", "paths written"])
def test_a_killed_restore_stays_closed_and_the_next_starts_over(original, root, tmp_path, moment):
    home = tmp_path / "home"
    warehouse = home / "warehouse"

    def scratch(pattern: str) -> bool:
        return any(home.glob(f"relocate-*/{pattern}"))

    reached = {
        "some files": lambda: any(warehouse.rglob("*.parquet")),
        "paths begun": lambda: scratch("source.db"),
        "paths written": lambda: scratch("raw.trace_messages/**/*.metadata.json"),
    }[moment]
    kill_when(reached, "restore", home, "--from", root)
    merged = job("merge", home)
    assert merged.returncode == 1
    assert "did not end: run it again" in merged.stderr
    done = job("restore", home, "--from", root)
    assert done.returncode == 0, done.stderr
    made = folder.read(folder.chosen(root, None))
    for name, rows in made.tables.items():
        if name in (tables.RAW.name, tables.EVENTS.name):
            assert lake(Settings(home=home)).load_table(name).scan().count() == rows
    assert holding(warehouse, f"{original.home}/") == []
    assert list(home.glob("relocate-*")) == []
    assert not (home / identity.UNFINISHED).exists()


def test_back_ups_while_jobs_publish_are_each_one_moment(original, spark, tmp_path):
    """Every row of events has its message in raw, no more messages than the positions say, and each can be restored."""
    root, ended, errors = tmp_path / "backups", threading.Event(), []

    def publish() -> None:
        try:
            for start in range(40, 440, 20):
                write(
                    spark, original, messages(spark, start, start + 20), planned(start, start + 20), "later"
                )
                merge_all(spark, original, f"run {start}")
                if ended.is_set():
                    break
        except Exception as error:
            errors.append(error)

    jobs, made, counts = threading.Thread(target=publish), [], []
    jobs.start()
    while len(made) < 6 or counts[-1] == counts[0]:
        assert jobs.is_alive(), errors or "nothing was published during the backups"
        made.append(make.make(original, root, lambda size: None)[0])
        counts.append(folder.read(made[-1]).tables[tables.RAW.name])
    ended.set()
    jobs.join()
    assert errors == []
    assert counts == sorted(counts)
    for number in (0, len(made) // 2, len(made) - 1):
        home = tmp_path / f"home{number}"
        done = job("restore", home, "--from", root, "--at", made[number].name)
        assert done.returncode == 0, done.stderr
        restored = lake(Settings(home=home))
        raw = restored.load_table(tables.RAW.name).scan().to_arrow()
        assert raw.num_rows == counts[number]
        assert job("merge", home).returncode == 0
        events = lake(Settings(home=home)).load_table(tables.EVENTS.name).scan().to_arrow()
        assert set(events["queue_offset"].to_pylist()) == set(raw["queue_offset"].to_pylist())


def test_a_restore_at_the_same_path_changes_no_file(root, tmp_path):
    """Of a restored lake, so that the original stays for the other tests."""
    home, again = tmp_path / "home", tmp_path / "backups"
    assert job("restore", home, "--from", root).returncode == 0
    assert job("backup", home, "--to", again).returncode == 0
    before, content = state(Settings(home=home)), {name: size for name, (size, _) in files(home).items()}
    shutil.move(home, tmp_path / "lost")
    done = job("restore", home, "--from", again)
    assert done.returncode == 0, done.stderr
    assert "paths were rewritten" not in done.stderr
    assert state(Settings(home=home)) == before
    needed = contents_of(Settings(home=home))
    assert needed <= content.keys()
    assert {name: Path(name).stat().st_size for name in needed} == {name: content[name] for name in needed}
    assert job("merge", home).returncode == 0
