"""Snapshot expiry is killed while it deletes files: what main needs stays, and the jobs go on.

Of events; in `make soak` of raw, too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs.lake import catalog
from spark_jobs.lake.tables import EVENTS, Table
from spark_jobs.settings import Settings
from tests.faults.jobs.job import expire
from tests.faults.jobs.killed import folder_of
from tests.faults.jobs.killing import MESSAGES, REPEATS, TABLES, killed
from tests.faults.jobs.world import World
from tests.soak import IS_SOAK

FILES = 200
EXPIRED = TABLES if IS_SOAK else {"merge": EVENTS}


def left_by_a_dropped_branch(world: World, table: Table) -> list[str]:
    """Commit many data files to a branch and drop it, as a refused publication does; returns the files."""
    folder = folder_of(world.settings, table)
    before = set(folder.glob("data/*/*.parquet"))
    world.spark.sql(f"alter table {table.full_name} create branch refused")
    few = world.spark.table(table.full_name).limit(FILES * 2).repartition(FILES)
    few.write.format("iceberg").options(branch="refused", **{"distribution-mode": "none"}).mode(
        "append"
    ).save(table.full_name)
    world.spark.sql(f"alter table {table.full_name} drop branch refused")
    files = [str(file) for file in set(folder.glob("data/*/*.parquet")) - before]
    assert len(files) >= FILES
    return files


def slow_to_delete(file: str) -> None:
    """A folder that is not empty stands where the file was: it is tried again after one, two and four seconds.

    Files alone are gone before anyone sees that one of them is.
    """
    Path(file).unlink()
    Path(file, "not empty").mkdir(parents=True)


def snapshots(settings: Settings, table: Table) -> int:
    return len(catalog.lake(settings).load_table(table.name).metadata.snapshots)


@pytest.mark.timeout(600 * REPEATS)
def test_killed_expiry(world: World, tmp_path: Path, record_property, monkeypatch):
    counts = {
        job: {"point": "expiry", "job": job, "repeats": 0, "messages": 0, "lost": 0, "doubled": 0, "wrong": 0}
        for job in EXPIRED
    }
    for of_job in counts.values():
        record_property("counts", of_job)
    for repeat in range(REPEATS):
        world.write(MESSAGES)
        assert world.extract() == 0
        assert world.merge() == 0
        for job, table in EXPIRED.items():
            doomed = left_by_a_dropped_branch(world, table)
            slow, files = doomed[::2], doomed[1::2]
            for file in slow:
                slow_to_delete(file)
            main, live = world.head(table), snapshots(world.settings, table)
            at = killed(world, "expiry", ["expire", job], tmp_path / "mark", DOOMED_FILES=json.dumps(files))
            assert len(at["metadata"]) == 1
            assert at["deleted"] > 0
            assert at["left"] > 0, "the expiry was over before it was killed"
            assert snapshots(world.settings, table) < live
            assert world.head(table) == main

        world.write(100)
        assert world.extract() == 0
        assert world.merge() == 0
        for name, value in world.environment.items():
            monkeypatch.setenv(name, value)
        for job, table in EXPIRED.items():
            assert expire(table) == 0
            difference = world.compare(table)
            counts[job] |= {"repeats": repeat + 1, "messages": difference.messages}
            for name in ("lost", "doubled", "wrong"):
                counts[job][name] += getattr(difference, name)
            assert (difference.lost, difference.doubled, difference.wrong) == (0, 0, 0)
