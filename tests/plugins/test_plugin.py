"""Airflow loads from the plugins folder one plugin, one connection type, and a link on the Spark tasks."""

from __future__ import annotations

import pytest

from airflow_provider_rocketmq import get_provider_info
from spark_jobs.settings import PROJECT


def test_airflow_loads_the_one_plugin_without_errors(airflow_home):
    from airflow import plugins_manager

    plugins, errors = plugins_manager._get_plugins()
    assert errors == {}
    assert [str(p.source) for p in plugins if p.name == "trace_warehouse"] == [
        "$PLUGINS_FOLDER/trace_warehouse.py"
    ]


def test_the_connection_type_is_listed_with_its_form(airflow_home):
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    [form] = [each for each in HookMetaService.hook_meta_data() if each.connection_type == "rocketmq"]
    assert form.hook_name == "RocketMQ"
    assert form.standard_fields.login.title == "Access key"
    assert form.extra_fields["security_token"]["schema"]["format"] == "password"


def test_the_form_has_the_fields_that_the_hook_takes(airflow_home):
    from airflow_provider_rocketmq.hooks.rocketmq import EXTRA

    [kind] = get_provider_info()["connection-types"]
    assert set(kind["conn-fields"]) == set(EXTRA)


def test_a_connection_of_the_type_gets_the_hook(airflow_home):
    from airflow.sdk import Connection

    from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook

    hook = Connection(conn_id="c1", conn_type="rocketmq").get_hook()
    assert isinstance(hook, RocketMQHook)
    assert hook.rocketmq_conn_id == "c1"


def test_the_message_queue_of_the_scheme_is_the_trigger(airflow_home):
    from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger

    from airflow_provider_rocketmq.triggers.rocketmq import RocketMQTrigger

    named = {"topic": "orders", "consumer_group": "billing"}
    when = {"min_messages": 3, "max_age": 60, "poll_interval": 5, "hold": 100}
    trigger = MessageQueueTrigger(scheme="rocketmq", **named, **when)
    assert trigger.serialize() == RocketMQTrigger(**named, **when).serialize()
    assert trigger.serialize()[1] == {**named, **when, "rocketmq_conn_id": "rocketmq_default", "once": False}


@pytest.mark.parametrize(("dag_id", "task_id"), [("trace_ingest", "ingest"), ("trace_marts", "build")])
def test_a_spark_task_links_to_what_its_run_published(airflow_home, dag_id, task_id):
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.taskinstancekey import TaskInstanceKey
    from airflow.serialization.serialized_objects import DagSerialization

    dag = DagBag(str(PROJECT / "dags" / f"{dag_id}.py")).dags[dag_id]
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    [link] = [each for each in stored.get_task(task_id).operator_extra_links if each.name == "Published"]
    key = TaskInstanceKey(dag_id, task_id, "manual__2026-11-21T10:00:00+00:00")
    address = f"/trace-warehouse/runs/{dag_id}/manual__2026-11-21T10%3A00%3A00%2B00%3A00"
    assert link.get_link(stored.get_task(task_id), ti_key=key).endswith(address)
