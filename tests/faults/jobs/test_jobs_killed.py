"""A job is killed (SIGKILL) at each step; the next plain run makes the tables equal to the broker.

In `make soak` an extraction and a merge are killed at each point, as often as TRACE_SOAK_REPEATS says. Without it an
extraction is killed in the middle, and a merge between its commit and its audit; test_state_machine.py ends jobs at others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.lake.tables import EVENTS, RAW, Table
from tests.faults.jobs.killing import MESSAGES, REPEATS, TABLES, killed, readers, snapshots_of
from tests.faults.jobs.world import CLUSTER, World
from tests.soak import IS_SOAK

# One task at a time: so there is a while when some are done and others not.
SLOWED = {"mid-read": {"TRACE_SPARK__MASTER": "local[1]"}}
ALL_POINTS = ("planned", "mid-read", "files-written", "committed", "audited", "published")
SAMPLE = {"mid-read": ["extract"], "committed": ["merge"]}
POINTS = ALL_POINTS if IS_SOAK else tuple(SAMPLE)


def jobs_to_kill(point: str) -> list[str]:
    return list(TABLES) if IS_SOAK else SAMPLE[point]


def assert_reached(world: World, point: str, table: Table, run_id: str, seen: dict[str, Any]) -> None:
    """The process was where the point's name says, by what it left in the table."""
    committed, published = snapshots_of(world, table, run_id)
    assert len(committed) == (point in ("committed", "audited", "published"))
    assert len(published) == (point == "published")
    if point == "mid-read":
        assert seen["done"] > 0
        assert seen["active"] > 0
    if point == "files-written":
        assert seen["locked"]
        assert len(seen["metadata"]) == 1


@pytest.mark.timeout(600 * REPEATS)
@pytest.mark.parametrize("point", POINTS)
def test_killed(world: World, point: str, tmp_path: Path, record_property):
    counts = {
        job: {"point": point, "job": job, "repeats": 0, "messages": 0, "lost": 0, "doubled": 0, "wrong": 0}
        for job in jobs_to_kill(point)
    }
    for of_job in counts.values():
        record_property("counts", of_job)
    for repeat in range(REPEATS):
        world.write(MESSAGES)
        for job, table in TABLES.items():
            if job not in counts:
                assert (world.extract() if job == "extract" else world.merge()) == 0
                continue
            run_id = f"{job}-{point}-{repeat}"
            arguments = ["extract", "--cluster", CLUSTER] if job == "extract" else ["merge"]
            with readers(world, table) as seen:
                command = [*arguments, "--run-id", run_id]
                at = killed(world, point, command, tmp_path / "mark", **SLOWED.get(point, {}))
                assert_reached(world, point, table, run_id, at)
                assert (world.extract() if job == "extract" else world.merge()) == 0
            assert len(seen) <= (3 if point == "published" else 2), "main was at a snapshot of a broken run"
            difference = world.compare(RAW) if job == "extract" else world.compare(RAW, EVENTS)
            counts[job] |= {"repeats": repeat + 1, "messages": difference.messages}
            for name in ("lost", "doubled", "wrong"):
                counts[job][name] += getattr(difference, name)
            assert (difference.lost, difference.doubled, difference.wrong) == (0, 0, 0)
