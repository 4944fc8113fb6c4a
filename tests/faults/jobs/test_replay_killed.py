"""A replay is killed (SIGKILL) at each step; the next plain one leaves what the decoder makes of raw, each record once.

At the other points it leaves what an extraction or a merge leaves (test_jobs_killed.py), and `make soak` has them all. Without
it a replay of this session ends between its commit and its audit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.lake import publish
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, RUN_ID, read_offsets, to_json
from spark_jobs.lake.tables import EVENTS, RAW, REPLACED_RECORDS
from tests.faults.jobs.job import JOBS
from tests.faults.jobs.killing import MESSAGES, REPEATS, crashed, killed, readers, snapshots_of
from tests.faults.jobs.world import World
from tests.soak import IS_SOAK

POINTS = ("planned", "files-written", "committed", "audited", "published") if IS_SOAK else ("committed",)
# Messages whose records an older decoder could not read.
SPOILED = "queue_offset % 20 = 0"


def spoil(world: World) -> int:
    """Let some messages have the records that an older decoder would have made; returns the number of records."""
    events = read_offsets(world.spark, world.settings, EVENTS)
    properties = {
        OFFSETS: to_json(events.positions),
        CHANGE_SEQ: str(events.change_seq),
        RUN_ID: "older decoder",
    }
    where = f"trace_topic = '{world.topics[0]}' and {SPOILED}"
    with publish.commit_with_properties(world.spark, properties):
        world.spark.sql(
            f"update {EVENTS.full_name} set record_type = 'Invalid', invalid_reason = 'unknown_type', decoder_version = 'old' "
            f"where {where}"
        )
    return world.spark.table(EVENTS.full_name).where(where).count()


def of_older_decoder(world: World) -> int:
    rows = world.rows(EVENTS, "record_type", "invalid_reason", "decoder_version")
    return sum(version == "old" for *_, version in rows)


@pytest.fixture(scope="module")
def merged(filled, settings, broker, java) -> World:
    """A topic whose messages are in events; each point damages their records again."""
    world = World(filled, settings, broker, java, ["replay-killed"])
    world.make_topics()
    world.write(MESSAGES)
    assert (world.extract(), world.merge()) == (0, 0)
    return world


@pytest.mark.timeout(600 * REPEATS)
@pytest.mark.parametrize("point", POINTS)
def test_killed(merged: World, point: str, tmp_path: Path, record_property):
    counts = {
        "point": point,
        "job": "replay",
        "repeats": 0,
        "messages": 0,
        "lost": 0,
        "doubled": 0,
        "wrong": 0,
    }
    record_property("counts", counts)
    world = merged
    # What earlier tests have written is none of this one's.
    ((first, after),) = world.spark.sql(
        f"""select cast(date_trunc('second', min(store_time)) as string), cast(date_add(max(store_time), 2) as string)
        from {RAW.full_name} where trace_topic = '{world.topics[0]}'"""
    ).collect()
    stored = ["--from", first, "--to", after]
    for repeat in range(REPEATS):
        run_id = f"replay-{point}-{repeat}"
        spoiled = spoil(world)
        assert spoiled >= MESSAGES // 20
        with readers(world, EVENTS) as seen:
            if IS_SOAK:
                killed(world, point, ["replay", *stored, "--run-id", run_id], tmp_path / "mark")
            else:
                crashed(JOBS["replay"].audit, lambda run_id=run_id: world.replay(*stored, run_id=run_id))
            committed, published = snapshots_of(world, EVENTS, run_id)
            assert len(committed) == (point in ("committed", "audited", "published"))
            assert len(published) == (point == "published")
            assert of_older_decoder(world) == (0 if point == "published" else spoiled)
            assert world.replay(*stored) == 0
        assert len(seen) == 2, "main was at a snapshot of a broken run"
        difference = world.compare(RAW, EVENTS)
        counts |= {"repeats": repeat + 1, "messages": difference.messages}
        counts["wrong"] += of_older_decoder(world)
        for name in ("lost", "doubled", "wrong"):
            counts[name] += getattr(difference, name)
        assert (counts["lost"], counts["doubled"], counts["wrong"]) == (0, 0, 0)
    # The models find each key that was replaced, once a commit.
    recorded = world.spark.table(REPLACED_RECORDS.full_name).where(f"trace_topic = '{world.topics[0]}'")
    assert recorded.count() == recorded.distinct().count()
    assert recorded.select("queue_id", "queue_offset", "record_index").distinct().count() >= MESSAGES // 20
