"""An extraction of many queues asks their brokers in several threads."""

from __future__ import annotations

import threading
from dataclasses import replace

from spark_jobs.ingest import plan
from spark_jobs.ingest.plan import Plan
from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.jobs.brokers import planned
from spark_jobs.lake.offsets import Position, Queue, Range
from spark_jobs.settings import Cluster, Settings
from tests.rocketmq.conftest import Written

LAST, FIRST = Queue("sandbox", "many", "broker-a", 63), Queue("sandbox", "many", "broker-a", 0)


def test_many_queues_are_planned_as_one_after_the_other(written: Written, tmp_path, monkeypatch):
    cluster = Cluster(name="sandbox", namesrv=[written.sandbox.namesrv], trace_topics=["many"])
    threads, ask = set(), TopicSource.bounds

    def bounds(source: TopicSource, queue: Queue):
        threads.add(threading.get_ident())
        return ask(source, queue)

    monkeypatch.setattr(TopicSource, "bounds", bounds)

    def made() -> Plan:
        # The broker ends before this offset: one queue fails, the others are planned.
        before = {FIRST: Position(next=5, store_time=1)}
        threads.clear()
        return replace(planned(cluster, Settings(home=tmp_path), before, 1000), planned_at=0)

    at_once = made()
    assert 1 < len(threads) <= 64 // plan.QUEUES_PER_THREAD
    assert len(at_once.steps) == 63
    assert at_once.ranges == [Range(LAST, 0, 0, 7)]
    assert list(at_once.failures) == [str(FIRST)]
    assert "read up to offset 4, but the broker ends at -1" in at_once.failures[str(FIRST)]
    monkeypatch.setattr(plan, "MOST_THREADS", 1)
    one_by_one = made()
    assert len(threads) == 1
    assert at_once.failures == one_by_one.failures
    assert [each.range for each in at_once.steps] == [each.range for each in one_by_one.steps]
