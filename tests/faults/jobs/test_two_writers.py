"""Two processes extract at once, and then merge: one publishes, the other plans again; nothing is doubled or lost."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

from spark_jobs.lake import catalog
from spark_jobs.lake.tables import EVENTS, RAW, Table
from tests.faults.jobs.killing import TABLES, snapshots_of
from tests.faults.jobs.meeting import LATE, wait_for
from tests.faults.jobs.world import CLUSTER, World
from tests.soak import IS_SOAK

# Two are the least: in the first both go on at once, in the second one after the other.
ROUNDS = int(os.environ.get("TRACE_SOAK_REPEATS", "2"))
MESSAGES = 2000 if IS_SOAK else 400
NAMES = ("early", LATE)


def rows_added(world: World, table: Table, run_id: str) -> int:
    """By the snapshots of a run that are on main."""
    metadata = catalog.lake(world.settings).load_table(table.name)
    _, on_main = snapshots_of(world, table, run_id)
    return sum(int(metadata.snapshot_by_id(each).summary["added-records"] or 0) for each in on_main)


@pytest.mark.timeout(1200 * ROUNDS)
def test_two_at_once(world: World, tmp_path: Path):
    both = [
        world.start("tests.faults.jobs.meeting", str(tmp_path), name, str(ROUNDS), CLUSTER) for name in NAMES
    ]
    for job, number in product(TABLES, range(ROUNDS)):
        this_round = f"{job}-{number}"
        world.write(MESSAGES)
        if job == "merge":
            assert world.extract() == 0
        (tmp_path / f"go-{this_round}").touch()
        wait_for(tmp_path, f"*-done-{this_round}", 2)
        assert all((tmp_path / f"{name}-planned-{this_round}").exists() for name in NAMES)
        ends = {name: (tmp_path / f"{name}-done-{this_round}").read_text() for name in NAMES}
        assert all(end == "0" for end in ends.values()), "\n".join(
            f"round {this_round}, {name}: {end}" for name, end in ends.items()
        )
        added = sorted(rows_added(world, TABLES[job], f"{name}-{this_round}") for name in NAMES)
        assert added[0] == 0, f"both published: {added}"
        assert added[1] > 0
        if job == "extract":
            difference = world.compare(RAW)
            assert added[1] == MESSAGES
        else:
            difference = world.compare(RAW, EVENTS)
        assert (difference.lost, difference.doubled, difference.wrong) == (0, 0, 0)
    for process in both:
        run = process.finished()
        assert run.code == 0, run.output
