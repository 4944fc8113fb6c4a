"""A topic is deleted and recreated on the broker: its queues stop and say what to do, others are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.jobs import reset_queue
from spark_jobs.lake.offsets import Queue
from spark_jobs.lake.tables import EVENTS, RAW
from tests.faults.jobs.world import CLUSTER, Difference, QueueLocation, World

BEFORE = 600


def test_recreated(world: World, capfd: pytest.CaptureFixture[str]):
    """One topic ends before the offsets that were read, another has grown past them; a third one stays as it is."""
    (name,) = world.topics
    after = {f"{name}-shorter": 200, f"{name}-grown-past": 1500}
    other = f"{name}-other"
    world.topics = [*after, other]
    for topic in world.topics:
        world.make_topic(topic)
        world.write(BEFORE, topic)
    assert world.extract() == 0
    assert world.merge() == 0
    world.look_at_the_broker()

    for topic in after:
        world.java("delete_topic", topic=topic, addresses=[world.sandbox.broker_address])
        world.make_topic(topic)

    def part(topics: list[str], messages: dict[QueueLocation, tuple[int, int, int]], epoch: int = 0) -> World:
        of_topics = {place: sent for place, sent in messages.items() if place[0] in topics}
        return replace(world, topics=topics, messages=of_topics, epoch=epoch)

    old, unchanged = part([*after], world.messages), part([other], world.messages)
    new = {topic: part([topic], {}, epoch=1) for topic in after}
    for topic, messages in after.items():
        world.write(messages, topic)
    world.write(100, other)
    capfd.readouterr()

    assert world.extract() == 1
    output = " ".join(capfd.readouterr().err.split())  # as it was before it was wrapped
    queues = [
        Queue(CLUSTER, topic, world.sandbox.broker_name, queue_id) for topic in after for queue_id in (0, 1)
    ]
    for queue in queues:
        assert f"make ingest-reset QUEUE={queue}" in output
    assert_whole(old.compare_with_known(RAW), 2 * BEFORE)
    assert_whole(unchanged.compare(RAW), BEFORE + 100)

    for queue in queues:
        reset_queue.reset(world.spark, world.settings, queue)
    assert world.extract() == 0
    assert world.merge() == 0
    for topic, messages in after.items():
        assert_whole(new[topic].compare(RAW, EVENTS), messages)
    assert_whole(old.compare_with_known(RAW, EVENTS), 2 * BEFORE)
    assert_whole(unchanged.compare(RAW, EVENTS), BEFORE + 100)


def assert_whole(difference: Difference, messages: int) -> None:
    assert difference == Difference(messages, lost=0, doubled=0, wrong=0)
