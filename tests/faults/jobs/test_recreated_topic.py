"""A topic is deleted and recreated on the broker: its queues stop and say what to do, others are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.jobs import reset_queue
from spark_jobs.lake.offsets import Queue
from spark_jobs.lake.tables import EVENTS, RAW
from tests.faults.jobs.world import CLUSTER, Difference, World

BEFORE = 1000


@pytest.mark.parametrize("after", [400, 3000], ids=["shorter", "grown-past"])
def test_recreated(world: World, after: int, capfd: pytest.CaptureFixture[str]):
    (topic,) = world.topics
    world.topics = [topic, f"{topic}-other"]
    world.make_topic(world.topics[1])
    world.write(BEFORE)
    world.write(BEFORE, world.topics[1])
    assert world.extract() == 0
    assert world.merge() == 0
    world.look_at_the_broker()

    world.java("delete_topic", topic=topic, addresses=[world.sandbox.broker_address])
    world.make_topic(topic)
    old = replace(world, topics=[topic], messages={k: v for k, v in world.messages.items() if k[0] == topic})
    other = replace(
        world, topics=[world.topics[1]], messages={k: v for k, v in world.messages.items() if k[0] != topic}
    )
    new = replace(world, topics=[topic], messages={}, epoch=1)
    world.write(after)
    world.write(100, world.topics[1])
    capfd.readouterr()

    assert world.extract() == 1
    output = " ".join(capfd.readouterr().err.split())  # as it was before it was wrapped
    queues = [Queue(CLUSTER, topic, world.sandbox.broker_name, queue_id) for queue_id in (0, 1)]
    for queue in queues:
        assert f"make ingest-reset QUEUE={queue}" in output
    assert_whole(old.compare_with_known(RAW), BEFORE)
    assert_whole(other.compare(RAW), BEFORE + 100)

    for queue in queues:
        reset_queue.reset(world.spark, world.settings, queue)
    assert world.extract() == 0
    assert world.merge() == 0
    assert_whole(new.compare(RAW, EVENTS), after)
    assert_whole(old.compare_with_known(RAW, EVENTS), BEFORE)
    assert_whole(other.compare(RAW, EVENTS), BEFORE + 100)


def assert_whole(difference: Difference, messages: int) -> None:
    assert difference == Difference(messages, lost=0, doubled=0, wrong=0)
