"""The alerts of a cluster that cannot be read say what is the matter with it, on a real one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandbox import registration
from sandbox.broker import Sandbox
from spark_jobs.alerts.alert import Alert, advance
from spark_jobs.checks.check import Run
from spark_jobs.checks.evaluate import evaluate
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake.offsets import Queue
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import NoBrokersError
from spark_jobs.settings import Cluster
from tests.faults.client.conftest import lone_nameserver
from tests.faults.jobs.world import CLUSTER, World


def alerts(world: World) -> list[Alert]:
    """What the watchdog's checks of the brokers open, 71 hours after the newest message was stored."""
    cluster = Cluster(name=CLUSTER, namesrv=[world.sandbox.namesrv], trace_topics=world.topics)
    settings = world.settings.model_copy(update={"clusters": [cluster], "environment": "prod"})
    run = Run(settings, datetime.now(UTC) + timedelta(hours=71))
    found = evaluate([BY_NAME["lag"], BY_NAME["retention_headroom"]], run)
    opened = advance([], found, settings, run.now)
    for alert in opened:
        print(f"{alert.summary}\n    {alert.description}")
    return opened


def unread(world: World, sandbox: Sandbox) -> None:
    """Messages of both of a broker's queues that were not read yet."""
    world.write(200, broker=sandbox.broker_name)


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.fixture
def read(world: World, second: Sandbox) -> World:
    """A topic on two brokers, of which some was read and some was not."""
    (topic,) = world.topics
    world.make_topic(topic, sandbox=second)
    for sandbox in (world.sandbox, second):
        unread(world, sandbox)
    assert world.extract() == 0
    return world


def test_a_broker_that_is_down_or_does_not_answer_is_named(read: World, second: Sandbox):
    unread(read, second)
    with stopped(second.broker_pid):
        (slow,) = alerts(read)
    assert slow.summary.startswith(
        "prod/faults: could not be checked: lag: broker broker-b does not answer in time: "
    )
    second.broker.kill()  # the nameserver sees the connection break; of a machine that is cut off it hears after 2 minutes
    try:
        (down,) = alerts(read)
    finally:
        second.broker.start()
    assert down.summary.startswith("prod/faults: could not be checked: lag: broker broker-b is down")
    assert "Check the topic's name" not in down.description
    assert (down.check, down.entity, down.value) == ("lag", CLUSTER, None)


def test_a_nameserver_that_is_down(read: World):
    read.sandbox.nameserver.stop()
    try:
        (alert,) = alerts(read)
    finally:
        read.sandbox.start()
        read.wait_for_route(read.topics[0], read.sandbox)
    assert alert.summary.startswith("prod/faults: could not be checked: lag: ")
    assert "no nameserver answers" in alert.summary
    assert read.sandbox.namesrv in alert.summary


def test_a_topic_that_was_deleted_and_then_recreated(world: World):
    (topic,) = world.topics
    world.write(1000)
    assert world.extract() == 0
    world.java("delete_topic", topic=topic, addresses=[world.sandbox.broker_address])
    registration.register_now(world.sandbox.broker_address)
    (deleted,) = alerts(world)
    assert deleted.summary.startswith(
        f"prod/faults: could not be checked: lag: topic {topic} was deleted on broker broker-a: the broker runs"
    )
    world.make_topic(topic)
    world.write(20)
    recreated = [alert for alert in alerts(world) if alert.check == "lag"]
    assert len(recreated) == 2
    for queue_id, alert in enumerate(recreated):
        assert alert.summary.startswith(
            f"prod/faults: could not be checked: lag of {topic} (broker-a, queue {queue_id}): the topic was deleted and recreated"
        )
        queue = Queue(CLUSTER, topic, "broker-a", queue_id)
        assert (
            f"read up to offset 499, the broker ends at 9; if so, `make ingest-reset QUEUE={queue}`"
            in alert.description
        )


def test_no_broker_at_all_is_not_a_topic_of_another_name(tmp_path: Path):
    alone = lone_nameserver(tmp_path)
    alone.nameserver.start()
    try:
        with (
            Client([alone.namesrv], "c1") as client,
            pytest.raises(NoBrokersError, match="all brokers are down"),
        ):
            client.queues("RMQ_SYS_TRACE_TOPIC")
    finally:
        alone.kill()


def test_a_topic_that_no_broker_has_is_said_with_the_brokers_that_are_there(world: World):
    world.topics = ["no-such-topic"]
    (alert,) = alerts(world)
    assert "the nameserver has no route of the topic; it knows the brokers broker-a" in alert.description
