"""The broker has deleted messages before they were read: the gap is saved, once, and reading goes on after it."""

from __future__ import annotations

import time
from pathlib import Path

from sandbox.broker import Sandbox
from spark_jobs.lake import catalog
from spark_jobs.lake.tables import EVENTS, INGEST_GAPS, RAW
from tests.faults.jobs.killing import killed, snapshots_of
from tests.faults.jobs.world import CLUSTER, World


def deleted_up_to(world: World, broker: Sandbox, read: int) -> dict[int, int]:
    """Let the broker delete its old files; returns the first offset of each queue, all above `read`."""
    world.java("expire", address=broker.broker_address)
    until = time.monotonic() + 60
    while True:
        first = {queue: low for _, queue, low, _ in world.java("bounds", topic=world.topics[0])}
        if min(first.values()) > read:
            return first
        assert time.monotonic() < until, first
        time.sleep(0.2)


def gaps(world: World) -> list[tuple[int, int, int, int]]:
    rows = catalog.lake(world.settings).load_table(INGEST_GAPS.name).scan().to_arrow().to_pylist()
    return sorted(
        (row["queue_id"], row["epoch"], row["from_offset"], row["to_offset"])
        for row in rows
        if row["trace_topic"] == world.topics[0]
    )


def test_a_gap(world: World, second: Sandbox, tmp_path: Path):
    """Even if the extraction is killed after the gap was recorded and before the publication."""
    topic = world.topics[0] = f"{world.topics[0]}-second"  # on the second broker alone
    world.make_topic(topic, sandbox=second)
    world.write(1000, broker=second.broker_name)
    assert world.extract() == 0
    world.look_at_the_broker()
    world.write(12_000, broker=second.broker_name)
    first = deleted_up_to(world, second, read=500)
    world.write(200, broker=second.broker_name)
    expected = [(queue, 0, 500, low) for queue, low in sorted(first.items())]

    killed(world, "gaps-saved", ["extract", "--cluster", CLUSTER, "--run-id", "gap"], tmp_path / "mark")
    committed, published = snapshots_of(world, RAW, "gap")
    assert len(committed) == 1
    assert not published
    assert gaps(world) == expected

    assert world.extract() == 0
    assert world.merge() == 0
    assert gaps(world) == expected
    difference = world.compare(RAW, EVENTS)
    assert (difference.lost, difference.doubled, difference.wrong) == (0, 0, 0)
    assert difference.messages == 1000 + 12_200 - sum(low - 500 for low in first.values())
