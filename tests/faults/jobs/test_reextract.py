"""Messages are read from the broker again: exactly what was asked for is replaced, and all else stays as it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.jobs import reextract
from spark_jobs.lake.offsets import Queue, read_offsets
from spark_jobs.lake.tables import EVENTS, RAW
from tests.faults.jobs.world import CLUSTER, Difference, World

MESSAGES = 100


def queue(world: World, queue_id: int = 0) -> Queue:
    return Queue(CLUSTER, world.topics[0], world.sandbox.broker_name, queue_id)


def again(world: World, *arguments: str) -> int:
    return world._here(reextract.main, [*arguments, "--run-id", "again"])


def offsets(world: World, first: int, after: int) -> list[str]:
    return ["--queue", str(queue(world)), "--from-offset", str(first), "--to-offset", str(after)]


def damage(world: World, table: str, where: str) -> None:
    """Delete rows of the first queue; the committed offsets stay as they are."""
    world.spark.sql(
        f"delete from {table} where trace_topic = '{world.topics[0]}' and queue_id = 0 and {where}"
    )


def run_ids(world: World) -> dict[str, int]:
    """Rows of raw by the run that wrote them."""
    rows = world.rows(RAW, "run_id")
    return {run: rows.count((run,)) for (run,) in set(rows)}


@pytest.fixture
def ingested(world: World) -> World:
    world.write(MESSAGES)
    assert (world.extract("first"), world.merge("first")) == (0, 0)
    return world


def test_what_was_lost_comes_back_and_the_rest_is_not_touched(
    ingested: World, capfd: pytest.CaptureFixture[str]
):
    before = read_offsets(ingested.spark, ingested.settings, RAW).positions
    merged = read_offsets(ingested.spark, ingested.settings, EVENTS).change_seq
    damage(ingested, RAW.full_name, "queue_offset between 10 and 19")
    damage(ingested, EVENTS.full_name, "queue_offset between 10 and 19")
    assert ingested.compare(RAW).lost == 10

    assert again(ingested, *offsets(ingested, 5, 30), "--dry-run") == 0
    assert "would be read again" in capfd.readouterr().err
    assert ingested.compare(RAW).lost == 10

    assert again(ingested, *offsets(ingested, 5, 30)) == 0
    assert ingested.compare(RAW, EVENTS) == Difference(MESSAGES, lost=0, doubled=0, wrong=0)
    assert run_ids(ingested) == {"first": MESSAGES - 25, "again": 25}
    assert read_offsets(ingested.spark, ingested.settings, RAW).positions == before
    # What comes out as it was is not touched.
    new = ingested.spark.table(EVENTS.full_name).where(f"change_seq > {merged}")
    assert {(row.queue_id, row.queue_offset) for row in new.collect()} <= {(0, n) for n in range(10, 20)}

    ingested.write(100)
    assert (ingested.extract(), ingested.merge()) == (0, 0)
    assert ingested.compare(RAW, EVENTS) == Difference(MESSAGES + 100, lost=0, doubled=0, wrong=0)


def test_by_time_and_never_past_what_was_read(ingested: World):
    """Messages that no extraction has read yet are left to it, whatever time was asked for."""
    ingested.write(100)
    damage(ingested, RAW.full_name, "queue_offset < 7")
    now = datetime.now(UTC)
    times = ["--from", f"{now - timedelta(days=1):%FT%T}", "--to", f"{now + timedelta(days=1):%FT%T}"]
    assert again(ingested, *times, "--cluster", CLUSTER) == 0
    assert run_ids(ingested) == {"again": MESSAGES}
    assert (ingested.extract(), ingested.merge()) == (0, 0)
    assert ingested.compare(RAW, EVENTS) == Difference(MESSAGES + 100, lost=0, doubled=0, wrong=0)


def test_what_cannot_be_asked_for_is_refused(ingested: World, capfd: pytest.CaptureFixture[str]):
    before = ingested.head(RAW)
    for arguments, said in (
        (["--queue", f"{CLUSTER}/nowhere/b/0", "--from-offset", "0", "--to-offset", "9"], "was never read"),
        (offsets(ingested, 9, 9), "not before the end"),
        (["--from", "2026-11-21"], "give either"),
    ):
        with pytest.raises(SystemExit) as ended:
            again(ingested, *arguments)
        assert said in f"{ended.value} {capfd.readouterr().err}"
    assert ingested.head(RAW) == before


def test_a_cluster_that_cannot_be_asked_holds_up_no_other(ingested: World, capfd: pytest.CaptureFixture[str]):
    damage(ingested, RAW.full_name, "queue_offset < 7")
    ours = json.loads(ingested.environment["TRACE_CLUSTERS"])
    ingested.extra["TRACE_CLUSTERS"] = json.dumps([{"name": "away", "namesrv": ["127.0.0.1:1"]}, *ours])
    now = datetime.now(UTC)
    times = ["--from", f"{now - timedelta(days=1):%FT%T}", "--to", f"{now + timedelta(days=1):%FT%T}"]
    assert again(ingested, *times) == 1
    output = " ".join(capfd.readouterr().err.split())
    assert "failed cluster away: cluster away, " in output
    assert "no nameserver answers" in output
    assert run_ids(ingested) == {"again": MESSAGES}
    assert ingested.compare(RAW, EVENTS) == Difference(MESSAGES, lost=0, doubled=0, wrong=0)
