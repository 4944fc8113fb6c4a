"""The sentences of provider/README.md on when the trigger fires, on a real broker and in Airflow's database.

The warehouse's trigger has the same code with other committed offsets.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from deploy.airflow_environment import airflow_environment
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import BrokerBusyError
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.route import MessageQueue
from spark_jobs.settings import Cluster, Settings
from tests.rocketmq.conftest import Written
from tests.rocketmq.watched import SECONDS, ByGroup, ByLake, Comms, Triggerer, Watched, elsewhere

QUICK = {"poll_interval": 0.2}
# The rule is one for both: what has nothing to do with where offsets come from is tested with one of them.
by_group = pytest.mark.parametrize("watched", [ByGroup], indirect=True)


@pytest.fixture(params=[ByGroup, ByLake])
def watched(request, written: Written, tmp_path, monkeypatch) -> Watched:
    """A topic whose two queues are empty and committed."""
    sandbox = written.sandbox
    topic = f"watched-{uuid4().hex[:8]}"
    for name, value in airflow_environment(Settings(home=tmp_path)).items():
        monkeypatch.setenv(name, value)
    clusters = [Cluster(name="c", namesrv=[sandbox.namesrv], trace_topics=[topic])]
    monkeypatch.setenv("TRACE_HOME", str(tmp_path))
    monkeypatch.setenv("TRACE_CLUSTERS", json.dumps([each.model_dump() for each in clusters]))
    connection = {"conn_type": "rocketmq", "host": sandbox.namesrv}
    monkeypatch.setenv("AIRFLOW_CONN_SANDBOX", json.dumps(connection))
    (tmp_path / "warehouse").mkdir()
    found: Watched = request.param(sandbox.broker_address, sandbox.namesrv, topic)
    found.send(1, 0)
    found.send(1, 1)
    found.commit()
    return found


@pytest.fixture
def asset(watched, monkeypatch) -> Iterator[str]:
    """An asset in Airflow's database, whose state triggers read and write as in a triggerer."""
    from airflow import settings
    from airflow.models import import_all_models
    from airflow.models.asset import AssetActive, AssetModel
    from airflow.models.base import Base
    from airflow.sdk.execution_time import task_runner
    from airflow.utils.session import create_session

    from airflow_provider_rocketmq.triggers import memory

    import_all_models()
    Path(settings.engine.url.database).parent.mkdir(parents=True, exist_ok=True)
    Base.metadata.create_all(settings.engine)
    name = f"asset-{watched.topic}"
    with create_session() as session:
        session.add(AssetModel(name=name, uri=f"asset://{name}", group="asset"))
        session.flush()
        session.add(AssetActive(name=name, uri=f"asset://{name}"))
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Comms(), raising=False)
    for constant, seconds in {"SETTLE": 0.3, "STORED": 0.2, "CLAIM": 2.0}.items():
        monkeypatch.setattr(memory, f"{constant}_SECONDS", seconds)
    return name


def test_new_messages_fire_once_and_later_ones_when_the_run_has_committed(watched, asset):
    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK), asset)
        await one.until(0)
        watched.send(2)
        await one.until(1)  # once; the lag stands
        watched.send(1, 0)
        watched.send(1, 1)  # also of the other queue
        await one.until(1)  # the run works
        watched.commit({0: 3})
        await one.until(2)
        watched.commit()
        await one.until(2)
        assert one.unread() == [{watched.name(0): 2}, {watched.name(0): 1, watched.name(1): 1}]
        await one.kill()

    asyncio.run(scenario())


def test_after_a_restart_it_fires_for_what_came_meanwhile_alone(watched, asset):
    async def scenario() -> None:
        first = Triggerer(watched.trigger(**QUICK), asset)
        watched.send(2)
        await first.until(1)
        await first.kill()
        second = Triggerer(watched.trigger(**QUICK), asset)
        await second.until(0)  # the lag stands
        await second.kill()
        watched.commit()
        watched.send(3, 1)
        third = Triggerer(watched.trigger(**QUICK, hold=1000), asset)
        await third.until(1)
        assert third.unread() == [{watched.name(1): 3}]
        await third.kill()

    asyncio.run(scenario())


@by_group
def test_two_triggerers_fire_once(watched, asset):
    async def scenario() -> None:
        both = [Triggerer(watched.trigger(**QUICK), asset) for _ in range(2)]
        for count in range(1, 5):
            watched.send(1)
            end = time.monotonic() + SECONDS
            while sum(len(each.events) for each in both) < count:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            for each in both:
                await each.quiet()
            assert sum(len(each.events) for each in both) == count
            watched.commit()
        for each in both:
            await each.kill()

    asyncio.run(scenario())


@by_group
def test_an_event_is_made_although_its_triggerer_was_killed_before(watched, asset, monkeypatch):
    from airflow_provider_rocketmq.triggers import memory

    async def scenario() -> None:
        monkeypatch.setattr(memory, "SETTLE_SECONDS", 60.0)
        killed, read = Triggerer(watched.trigger(**QUICK), asset), watched.ends()[0]
        watched.send(2)
        end = time.monotonic() + SECONDS
        while (await killed.trigger.asset_state_store.aget(key(killed))) is None:  # claimed
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        await killed.kill()
        assert killed.events == []
        monkeypatch.setattr(memory, "SETTLE_SECONDS", 0.3)
        other = Triggerer(watched.trigger(**QUICK), asset)
        await other.until(1)
        # A producer that waits too long for an answer sends again.
        assert other.unread() == [{watched.name(0): watched.ends()[0] - read}]
        await other.kill()

    def key(triggerer: Triggerer) -> str:
        return "/".join(["rocketmq", *triggerer.trigger.place.values()])

    asyncio.run(scenario())


@by_group
def test_a_queue_that_nobody_commits_fires_again_only_for_new_messages_after_the_hold(watched, asset):
    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK, hold=4), asset)
        watched.send(1, 0)
        await one.until(1)
        await asyncio.sleep(4)
        await one.until(1)  # the lag stands beyond the hold, too
        watched.send(1, 0)
        await one.until(2)
        await one.kill()
        # The queue that is behind holds nothing back, and the hold of these does not end in this test.
        two = Triggerer(watched.trigger(**QUICK, hold=1000), asset)
        watched.send(1, 1)
        await two.until(1)
        watched.send(1, 1)
        await two.until(1)  # but by its own run
        watched.commit({1: 2})
        await two.until(2)
        await two.kill()

    asyncio.run(scenario())


@by_group
def test_what_a_run_has_left_fires_again_after_the_hold(watched, asset):
    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK, hold=1000), asset)
        watched.send(5, 0)
        await one.until(1)
        watched.commit({0: 3})
        await one.until(1)  # the run may go on
        await one.kill()
        two = Triggerer(watched.trigger(**QUICK, hold=0), asset)
        await two.until(1)
        assert two.unread() == [{watched.name(0): 3}]
        await two.kill()

    asyncio.run(scenario())


@by_group
def test_two_assets_of_one_trigger_share_the_memory_of_the_process(watched, asset, capsys):
    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK), asset, "another")
        watched.send(1)
        await one.until(1)
        await one.kill()

    asyncio.run(scenario())
    assert "lost with this triggerer" in capsys.readouterr().out


@by_group
def test_an_offset_that_is_set_back_announces_again(watched, asset):
    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK), asset)
        watched.send(2)
        await one.until(1)
        watched.commit()
        await one.until(1)
        watched.commit({0: 0})
        await one.until(2)
        assert one.unread()[-1] == {watched.name(0): 3}
        await one.kill()

    asyncio.run(scenario())


def test_it_waits_for_enough_messages_or_for_the_age_of_the_oldest(watched, asset):
    async def scenario() -> None:
        started = time.monotonic()
        watched.send(2)
        one = Triggerer(watched.trigger(**QUICK, min_messages=3, max_age=5), asset)
        await one.until(1)
        assert time.monotonic() - started >= 5
        await one.kill()
        watched.commit()
        two = Triggerer(watched.trigger(**QUICK, min_messages=3, max_age=1000), asset)
        watched.send(2, 0)
        await two.until(0)
        watched.send(1, 1)
        await two.until(1)
        await two.kill()

    asyncio.run(scenario())


@by_group
def test_the_age_is_asked_for_once_and_only_where_something_is_unread(watched, asset):
    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK, min_messages=3, max_age=1000), asset)
        asked: list[dict[str, int]] = []
        stored_at = one.trigger.stored_at

        def recorded(offsets: dict[str, int]) -> tuple[dict[str, int | None], list[str]]:
            asked.append(dict(offsets))
            return stored_at(offsets)

        one.trigger.stored_at = recorded
        await one.until(0)
        assert asked == []
        watched.send(1)
        await one.until(0)
        await one.until(0)
        assert asked == [{watched.name(0): 1}]
        await one.kill()

    asyncio.run(scenario())


def test_a_queue_that_cannot_be_read_hides_no_old_message_of_the_others(watched, asset, capsys, monkeypatch):
    message_at, unreadable = Client.message_at, "broker-a: slaves reject pulls"

    def of_one(client: Client, queue: MessageQueue, offset: int) -> Message | None:
        if queue.queue_id == 0:
            raise BrokerBusyError(unreadable, 2)
        return message_at(client, queue, offset)

    monkeypatch.setattr(Client, "message_at", of_one)

    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK, min_messages=3, max_age=1), asset)
        watched.send(1, 0)
        await asyncio.sleep(1.5)
        await one.until(0)
        assert capsys.readouterr().out.count(unreadable) == 1
        watched.send(1, 1)
        await one.until(1)
        await one.kill()

    asyncio.run(scenario())


def test_brokers_that_cannot_be_asked_end_no_trigger(watched, asset, capsys):
    async def scenario() -> None:
        one = Triggerer(watched.trigger(**QUICK), asset)
        await one.until(0)
        away = [Cluster(name="c", namesrv=["127.0.0.1:1"]).model_dump()]
        for clusters, host in (
            (away, "127.0.0.1:1"),
            ([], ""),
        ):  # brokers that are down; settings that are wrong
            connection = {"conn_type": "rocketmq", "host": host}
            values = {
                "TRACE_CLUSTERS": json.dumps(clusters),
                "AIRFLOW_CONN_SANDBOX": json.dumps(connection),
            }
            with elsewhere(**values):
                await one.quiet()
        watched.send(1)
        await one.until(1)
        await one.kill()

    asyncio.run(scenario())
    assert capsys.readouterr().out.count("may not be noticed: ") == 2
