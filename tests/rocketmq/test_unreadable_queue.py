"""A queue that breaks off while it is read is left out alone: the others are published, the run ends failed."""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.jobs import extract as job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import Position, Queue, read_offsets
from spark_jobs.settings import Cluster
from tests.rocketmq.conftest import Written

READABLE, BROKEN = (Queue("sandbox", "three", "broker-a", queue_id) for queue_id in (0, 2))


def extract(*arguments):
    for attempt in publish.retry_on_conflict():
        with attempt:
            return job.extract(*arguments)


def test_a_queue_that_comes_back_short_is_left_out(lake, settings, written: Written, monkeypatch):
    """The plan says more than the broker has, as where its files are lost between plan and read."""
    plan = job.planned

    def lost_since(*arguments):
        planned = plan(*arguments)
        steps = [
            replace(step, range=replace(step.range, end=step.range.end + 5))
            if step.range.queue == BROKEN
            else step
            for step in planned.steps
        ]
        return replace(planned, steps=steps)

    monkeypatch.setattr(job, "planned", lost_since)
    cluster = Cluster(name="sandbox", namesrv=[written.sandbox.namesrv], trace_topics=["three"])
    done, published = extract(lake, cluster, settings, "run")

    assert list(done.failures) == [str(BROKEN)]
    assert "topic three, broker broker-a, queue 2" in done.failures[str(BROKEN)]
    assert "the broker returned no message at offset 10" in done.failures[str(BROKEN)]
    assert {queue: stored.messages for queue, stored in published.queues.items()} == {READABLE: 1000}
    positions = read_offsets(lake, settings, tables.RAW).positions
    assert positions[READABLE].next == 1000
    assert positions[BROKEN] == Position(next=0, unanswered=True)
    assert lake.table("lake.raw.trace_messages").where("queue_id = 2").count() == 0

    monkeypatch.undo()
    done, published = extract(lake, cluster, settings, "run 2")
    assert (done.failures, published.messages) == ({}, 10)
