"""A broker that is down fails its queues alone; a nameserver that is down fails the run, and both come back."""

from __future__ import annotations

import pytest

from sandbox.broker import TRACE_TOPIC, Sandbox
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.lake.tables import EVENTS, RAW
from tests.faults.jobs.world import Difference, World


def test_one_of_two_brokers_is_down(world: World, second: Sandbox, capfd: pytest.CaptureFixture[str]):
    (topic,) = world.topics
    world.make_topic(topic, sandbox=second)
    for name in (world.sandbox.broker_name, second.broker_name):
        world.write(200, broker=name)
    assert world.extract() == 0
    world.write(100)
    world.write(100, broker=second.broker_name)
    world.look_at_the_broker()
    second.broker.kill()
    capfd.readouterr()
    try:
        assert world.extract() == 1
        output = " ".join(capfd.readouterr().err.split())
        assert f"{topic}/{second.broker_name}/0" in output
        assert f"{topic}/{second.broker_name}/1" in output
        assert f"failed queue faults/{topic}/{world.sandbox.broker_name}" not in output
        assert world.compare_with_known(RAW) == Difference(600, lost=100, doubled=0, wrong=0)
    finally:
        second.broker.start()
    assert world.extract() == 0
    assert world.merge() == 0
    assert world.compare(RAW, EVENTS) == Difference(600, lost=0, doubled=0, wrong=0)


def test_the_nameserver_is_down(world: World, second: Sandbox, capfd: pytest.CaptureFixture[str]):
    world.write(200)
    assert world.extract() == 0
    world.write(200)
    world.look_at_the_broker()
    before = read_offsets(world.spark, world.settings, RAW).positions
    world.sandbox.nameserver.stop()
    capfd.readouterr()
    try:
        assert world.extract() != 0
        output = " ".join(capfd.readouterr().err.split())
        assert world.sandbox.namesrv in output
        assert "no nameserver answers" in output
        assert read_offsets(world.spark, world.settings, RAW).positions == before
        assert world.compare_with_known(RAW) == Difference(400, lost=200, doubled=0, wrong=0)
    finally:
        world.sandbox.start()
        world.wait_for_route(world.topics[0], world.sandbox)
        world.wait_for_route(TRACE_TOPIC, second)
    assert world.extract() == 0
    assert world.merge() == 0
    assert world.compare(RAW, EVENTS) == Difference(400, lost=0, doubled=0, wrong=0)
