"""Many extractions and merges with maintenance in between: nothing piles up, nothing is lost.

TRACE_SOAK_CYCLES says how many: 200 in `make soak`, which alone runs this.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.lake import catalog
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.lake.tables import EVENTS, RAW
from tests.faults.jobs.killed import folder_of
from tests.faults.jobs.table_policy import maintain
from tests.faults.jobs.world import Difference, World

CYCLES = int(os.environ.get("TRACE_SOAK_CYCLES", "200"))
EVERY = max(2, CYCLES // 20)  # maintenance comes after so many cycles
MESSAGES = 20
# What is measured may be a fifth more in the last quarter than in the second.
LEVEL = 1.2
# What single measurements differ by, in their units, when nothing changes.
SLACK = {"planning ms": 200, "JVM MB": 30, "Python MB": 20}


def measured(world: World, cycle: int) -> dict[str, Any]:
    """What would grow if something piled up; right after maintenance, so that quarters can be compared."""
    started = time.monotonic()
    for table in (RAW, EVENTS):
        read_offsets(world.spark, world.settings, table)
        world.spark.table(table.full_name).where("store_time > current_timestamp()").count()
    planning = time.monotonic() - started
    loaded = {table: catalog.lake(world.settings).load_table(table.name) for table in (RAW, EVENTS)}
    files = sum(len([f for f in folder_of(world.settings, t).rglob("*") if f.is_file()]) for t in loaded)
    jvm = world.spark._jvm.java.lang
    jvm.System.gc()
    heap = jvm.Runtime.getRuntime().totalMemory() - jvm.Runtime.getRuntime().freeMemory()
    return {
        "cycle": str(cycle),
        "data files": sum(int(t.current_snapshot().summary["total-data-files"]) for t in loaded.values()),
        "files on disk": files,
        "snapshots": sum(len(t.metadata.snapshots) for t in loaded.values()),
        "metadata bytes": sum(
            Path(t.metadata_location.removeprefix("file:")).stat().st_size for t in loaded.values()
        ),
        "planning ms": round(1000 * planning),
        "JVM MB": heap // 2**20,
        "Python MB": int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20,
    }


@pytest.mark.timeout(120 + 60 * CYCLES)
def test_nothing_piles_up(world: World, record_property):
    seen = []
    for cycle in range(1, CYCLES + 1):
        world.write(MESSAGES)
        assert (world.extract(f"cycle {cycle}"), world.merge(f"cycle {cycle}")) == (0, 0)
        if cycle % EVERY == 0:
            assert [done.refused for done in maintain(world)] == [None, None]
            seen.append(measured(world, cycle))
            record_property("counts", {name: str(value) for name, value in seen[-1].items()})
    assert world.compare(RAW, EVENTS) == Difference(CYCLES * MESSAGES, lost=0, doubled=0, wrong=0)
    assert_level(seen)


def assert_level(seen: list[dict[str, Any]]) -> None:
    """The last quarter of the measurements against the second."""
    quarter = len(seen) // 4
    assert quarter > 1, f"{CYCLES} cycles are too few to judge"
    for name in seen[0].keys() - {"cycle"}:
        was, now = (
            sum(each[name] for each in rows) / quarter
            for rows in (seen[quarter : 2 * quarter], seen[-quarter:])
        )
        assert now <= LEVEL * was + SLACK.get(name, 1), f"{name}: {was}, and {now} at the end: {seen}"
