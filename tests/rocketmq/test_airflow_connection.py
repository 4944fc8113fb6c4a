"""The hook and the sensor on a real broker; Airflow runs in this process, as in a worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib import import_module
from uuid import uuid4

import pyarrow as pa
import pytest

from deploy.airflow_environment import airflow_environment
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import OFFSETS, Position, Queue, to_json
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.rocketmq.group_offsets import commit_offset, committed_offset
from spark_jobs.settings import Cluster, Settings
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, Written

SECRET = "hush-hush-7"


@pytest.fixture
def connections(tmp_path, monkeypatch) -> Iterator[pytest.MonkeyPatch]:
    """Airflow, imported with the project's plugins; a connection is a variable `AIRFLOW_CONN_<ID>`."""
    for name, value in airflow_environment(Settings(home=tmp_path)).items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def connect(patch: pytest.MonkeyPatch, **fields: object) -> None:
    """Make the connection `sandbox`."""
    patch.setenv("AIRFLOW_CONN_SANDBOX", json.dumps({"conn_type": "rocketmq", **fields}))


def outcome(patch: pytest.MonkeyPatch, **fields: object) -> tuple[bool, str]:
    from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook

    connect(patch, **fields)
    return RocketMQHook("sandbox").test_connection()


def test_a_good_connection_names_topics_and_brokers(connections, written: Written):
    extra = {"topics": f"{LONG_TOPIC}, three", "tls": False, "namespace": ""}
    ok, message = outcome(connections, host=written.sandbox.namesrv, extra=extra)
    assert ok, message
    assert f"{LONG_TOPIC}: 1 queues on broker-a hold {LONG_COUNT} messages" in message
    assert "three: 3 queues on broker-a hold 1010 messages" in message


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"host": ""}, "host must name a nameserver"),
        ({"host": "127.0.0.1:1"}, "no nameserver answers"),
        ({"extra": {"topics": "no_such_topic"}}, "no_such_topic"),
        ({"extra": {"tokn": SECRET}}, "extra has no field tokn"),
        ({"login": "key"}, "go together"),
        ({"extra": {"tls_ca_file": "/ca.pem"}}, "need tls"),
        ({"extra": {"tls": True, "tls_ca_file": "/no/such/ca.pem"}}, "/no/such/ca.pem"),
        ({"extra": {"tls": True, "tls_verify": SECRET}}, "tls_verify must be"),
    ],
)
def test_a_bad_connection_says_what_is_wrong_and_no_secret(
    connections, written: Written, monkeypatch, fields, complaint
):
    ok, message = outcome(connections, **{"host": written.sandbox.namesrv, **fields})
    assert not ok
    assert complaint in message
    assert SECRET not in message


def test_nameservers_get_the_port_that_they_lack(connections):
    from airflow_provider_rocketmq.hooks.rocketmq import cluster

    found = cluster("c", "10.0.0.5:9876; 10.0.0.6 ;[::1]:9877", 9878, {})
    assert found.namesrv == ["10.0.0.5:9876", "10.0.0.6:9878", "[::1]:9877"]
    assert cluster("c", "mq", None, {}).namesrv == ["mq:9876"]


@pytest.mark.parametrize(
    ("bounds", "following", "expected"),
    [
        (Bounds(0, 0), 0, 0),
        (Bounds(0, 5), 0, 5),
        (Bounds(2, 5), 5, 0),
        (Bounds(2, 5), 4, 1),
        (Bounds(4, 9), 1, 5),  # 1, 2 and 3 have expired
        (Bounds(0, 3), 7, 3),  # recreated
        (Bounds(0, 3, from_master=False), 7, 0),  # a slave that lags
    ],
)
def test_messages_behind_a_position(bounds, following, expected):
    assert len(bounds.unread(following)) == expected


@pytest.fixture
def raw_read_to(connections, tmp_path, written: Written):
    """Settings with the sandbox as their cluster, and a function that publishes how far it was read."""
    clusters = [Cluster(name="c", namesrv=[written.sandbox.namesrv], trace_topics=[LONG_TOPIC])]
    connections.setenv("TRACE_HOME", str(tmp_path))
    connections.setenv("TRACE_CLUSTERS", json.dumps([cluster.model_dump() for cluster in clusters]))
    (tmp_path / "warehouse").mkdir()

    def publish(offset: int) -> None:
        rows = pa.table({"queue_offset": [0]})
        catalog = lake(Settings())
        catalog.create_namespace_if_not_exists("raw")
        table = catalog.create_table_if_not_exists("raw.trace_messages", rows.schema)
        position = {Queue("c", LONG_TOPIC, "broker-a", 0): Position(next=offset)}
        table.append(rows, snapshot_properties={OFFSETS: to_json(position)})

    return publish


def test_the_sensor_ends_at_once_where_messages_are_unread(raw_read_to):
    from plugins.trace_sensor import TraceMessagesSensor

    sensor = TraceMessagesSensor(task_id="new", cluster="c")
    assert sensor.execute({}) == {f"c/{LONG_TOPIC}/broker-a/0": LONG_COUNT}  # nothing was published yet
    raw_read_to(LONG_COUNT - 2)
    assert sensor.execute({}) == {f"c/{LONG_TOPIC}/broker-a/0": 2}
    assert TraceMessagesSensor(task_id="poll", cluster="c", deferrable=False).execute({})


def test_the_sensor_waits_in_its_trigger_until_messages_come(raw_read_to):
    from airflow.sdk.exceptions import TaskDeferred

    from plugins.trace_sensor import TraceMessagesSensor

    raw_read_to(LONG_COUNT)
    sensor = TraceMessagesSensor(task_id="new", cluster="c", poke_interval=0.2)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    path, arguments = deferred.value.trigger.serialize()
    module, name = path.rsplit(".", 1)
    trigger = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))

    async def events() -> dict:
        waiting = asyncio.ensure_future(anext(trigger.run()))
        done, _ = await asyncio.wait([waiting], timeout=1.5)
        assert not done, "nothing is unread, and the trigger fired"
        await asyncio.to_thread(raw_read_to, LONG_COUNT - 1)  # as good as a new message
        return (await asyncio.wait_for(waiting, 20)).payload

    event = asyncio.run(events())
    assert getattr(sensor, deferred.value.method_name)({}, event) == {f"c/{LONG_TOPIC}/broker-a/0": 1}


def test_a_trigger_that_cannot_ask_fails_its_sensor(raw_read_to, connections):
    from airflow.sdk.exceptions import AirflowException, TaskDeferred

    from plugins.trace_sensor import TraceMessagesSensor

    raw_read_to(LONG_COUNT)
    sensor = TraceMessagesSensor(task_id="new", cluster="c")
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    dead = [Cluster(name="c", namesrv=["127.0.0.1:1"]).model_dump()]
    connections.setenv("TRACE_CLUSTERS", json.dumps(dead))
    event = asyncio.run(anext(deferred.value.trigger.run()))
    with pytest.raises(AirflowException, match="no nameserver answers"):
        sensor.execute_complete({}, event.payload)


def test_the_sensor_of_a_topic_waits_for_what_a_group_has_not_committed(connections, written: Written):
    from airflow.sdk.exceptions import TaskDeferred

    from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook
    from airflow_provider_rocketmq.sensors.rocketmq import RocketMQSensor

    connect(connections, host=written.sandbox.namesrv)
    group = f"waiting-{uuid4().hex[:8]}"
    sensor = RocketMQSensor(
        task_id="new", topic="three", consumer_group=group, rocketmq_conn_id="sandbox", poke_interval=0.2
    )
    assert sensor.execute({}) == {"broker-a/0": 1000, "broker-a/2": 10}
    hook = RocketMQHook("sandbox")
    with hook.get_conn() as client:
        assert [committed_offset(client, each, group) for each in client.queues("three")] == [None] * 3
    assert len(list(hook.consume("three", group))) == 1010
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    with hook.get_conn() as client:
        last = next(queue for queue in client.queues("three") if queue.queue_id == 2)
        commit_offset(client, last, group, 7)
    event = asyncio.run(anext(deferred.value.trigger.run()))
    assert sensor.execute_complete({}, event.payload) == {"broker-a/2": 3}


def test_what_a_failed_task_has_not_asked_beyond_is_not_committed(connections, written: Written):
    from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook

    connect(connections, host=written.sandbox.namesrv)
    hook, group = RocketMQHook("sandbox"), f"failing-{uuid4().hex[:8]}"
    assert next(hook.consume("many", group)).queue_offset == 0  # and the task ends
    assert [each.queue_offset for each in hook.consume("many", group, max_messages=5)] == [0, 1, 2, 3, 4]
    assert [each.queue_offset for each in hook.consume("many", group)] == [5, 6]
    assert list(hook.consume("many", group)) == []
