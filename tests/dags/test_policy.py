"""The policy of all DAGs: owner, runbook, retries, pools and callbacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from deploy.airflow_environment import POOLS
from spark_jobs.ingest.reextract import ReextractRequest
from spark_jobs.jobs import reextract
from spark_jobs.lake.offsets import Queue
from tests.checks.world import ms
from tests.dags.conftest import SCHEDULES

EXPECTED = {
    *("trace_backfill", "trace_ingest", "trace_maintenance", "trace_marts", "trace_rebuild"),
    "trace_watchdog",
}


def test_the_expected_dags_are_there(dags):
    assert set(dags) == EXPECTED


@pytest.mark.parametrize("dag_id", sorted(EXPECTED))
def test_policy(dags, dag_id):
    dag = dags[dag_id]
    assert any(tag.startswith("tier-") for tag in dag.tags)
    assert not dag.catchup
    assert dag.max_active_runs == 1
    for part in ("**Makes**", "**Fails**", "**What to do**"):
        assert part in dag.doc_md
    for task in dag.tasks:
        assert task.owner == "data-platform", task.task_id
        assert task.execution_timeout, task.task_id
        assert task.pool in {"default_pool", *POOLS}, task.task_id


@pytest.mark.parametrize("dag_id", sorted(EXPECTED - {"trace_watchdog"}))
def test_every_task_notifies_of_its_failure_and_success(dags, dag_id):
    for task in dags[dag_id].tasks:
        for ended, callbacks in (
            ("failed", task.on_failure_callback),
            ("succeeded", task.on_success_callback),
        ):
            # A mapped function has its callback as the DAG file gives it.
            found = callbacks if isinstance(callbacks, Sequence) else [callbacks]
            assert [each.ended for each in found] == [ended], task.task_id


@pytest.mark.parametrize(
    ("dag_id", "retries"),
    [
        ("trace_backfill", 0),
        ("trace_ingest", 2),
        ("trace_maintenance", 1),
        ("trace_marts", 1),
        ("trace_rebuild", 2),
        ("trace_watchdog", 0),
    ],
)
def test_retries_and_their_delays(dags, dag_id, retries):
    for task in dags[dag_id].tasks:
        assert task.retries == retries, task.task_id
        if retries:
            assert task.retry_delay >= timedelta(seconds=10), task.task_id
        if retries > 1:
            assert task.retry_exponential_backoff, task.task_id


def test_schedules_are_those_of_the_settings(dags):
    assert {
        "ingest": dags["trace_ingest"].timetable.timetable.expression,
        "marts": dags["trace_marts"].timetable.timetable.expression,
        "maintenance": dags["trace_maintenance"].timetable.expression,
        "rebuild": dags["trace_rebuild"].timetable.expression,
    } == SCHEDULES


def test_the_watchdog_runs_often_and_needs_no_pool(dags):
    dag = dags["trace_watchdog"]
    assert dag.schedule == timedelta(minutes=5)
    (task,) = dag.tasks
    assert (task.pool, task.retries) == ("default_pool", 0)
    assert task.execution_timeout < dag.schedule
    assert set(task.env) == {"RUN_ID", "C2_ACCESS_KEY", "C2_SECRET_KEY", "C2_SECURITY_TOKEN"}


def test_writers_of_the_lake_share_one_slot(dags):
    assert {t.task_id for t in dags["trace_ingest"].tasks if t.pool == "lake_publish"} == {"ingest"}
    assert {t.task_id for t in dags["trace_backfill"].tasks if t.pool == "lake_publish"} == {
        "replay",
        "reextract",
    }
    assert POOLS["lake_publish"]["slots"] == 1


def test_the_marts_wait_longer_for_the_driver_than_the_ingest_which_may_build_them(dags):
    build, ingest = dags["trace_marts"].get_task("build"), dags["trace_ingest"].get_task("ingest")
    assert build.busy_seconds >= 10 * ingest.busy_seconds


def test_a_backfill_is_manual_and_a_dry_run_by_default(dags):
    dag = dags["trace_backfill"]
    assert dag.schedule is None
    assert dag.params["dry_run"] is True
    for task_id in ("replay", "reextract"):
        template = dag.get_task(task_id).application_args[-1]
        render = dag.get_template_env().from_string(template).render
        assert render(params={"dry_run": True}) == "--dry-run"
        assert render(params={"dry_run": False}) == "--no-dry-run"


def backfill(dags, task_id: str, **given):
    """The job's arguments of a run with these params, rendered."""
    dag = dags["trace_backfill"]
    params = {name: dag.params[name] for name in dag.params} | given
    context = {"params": params, "dag": dag, "run_id": "manual"}
    return [
        dag.get_template_env().from_string(template).render(context)
        for template in dag.get_task(task_id).application_args
    ]


TIMES = {"start": "2026-11-20", "end": "2026-11-21T08:30"}
OFFSETS = {"queue": "c1/t/broker-a/0", "from_offset": 0, "to_offset": 7}
BY_TIME = (ms(datetime(2026, 11, 20, tzinfo=UTC)), ms(datetime(2026, 11, 21, 8, 30, tzinfo=UTC)))


@pytest.mark.parametrize(
    ("given", "cluster", "asked"),
    [
        (TIMES, None, ReextractRequest(*BY_TIME)),
        (TIMES | {"cluster": "c2"}, "c2", ReextractRequest(*BY_TIME)),
        (OFFSETS, None, ReextractRequest(0, 7, Queue("c1", "t", "broker-a", 0))),
    ],
)
def test_a_backfill_passes_its_form_to_the_job(dags, given, cluster, asked):
    parser = reextract.arguments()
    args = parser.parse_args(backfill(dags, "reextract", **given))
    assert (args.cluster or None, args.dry_run, args.run_id) == (cluster, True, "trace_backfill/manual")
    assert reextract.request_from(args, parser) == asked


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"start": "2026-11-20"},
        TIMES | OFFSETS,
        TIMES | {"queue": OFFSETS["queue"]},
        OFFSETS | {"to_offset": None},
    ],
)
def test_an_incomplete_or_contradictory_form_is_rejected(dags, given, capsys):
    parser = reextract.arguments()
    with pytest.raises(SystemExit):
        reextract.request_from(parser.parse_args(backfill(dags, "reextract", **given)), parser)
    assert "give either --from and --to, or --queue" in capsys.readouterr().err


def test_only_tasks_that_read_the_brokers_get_their_secrets(dags):
    dag = dags["trace_backfill"]
    assert set(dag.get_task("reextract").env_vars) == {"C2_ACCESS_KEY", "C2_SECRET_KEY", "C2_SECURITY_TOKEN"}
    assert not dag.get_task("replay").env_vars


def test_a_backfill_runs_replay_or_reextract(dags):
    dag = dags["trace_backfill"]
    chosen = dag.get_task("chosen")
    assert chosen.downstream_task_ids == set(dag.params.get_param("what").schema["enum"])
    for what in chosen.downstream_task_ids:
        assert chosen.python_callable(params={"what": what}) == what


def test_maintenance_waits_for_the_writers_of_its_tables(dags):
    from spark_jobs.settings import TABLE_POLICIES

    tests, *keepers = sorted(dags["trace_maintenance"].tasks, key=lambda task: task.task_id)
    assert (tests.task_id, tests.pool) == ("history_tests", "lake_marts")
    tasks = {task.pool: task for task in keepers}
    assert set(tasks) == {policy.pool for policy in TABLE_POLICIES} <= set(POOLS)
    for pool, task in tasks.items():
        assert task.application_args[:2] == ["--pool", pool]


def test_new_messages_of_each_cluster_start_the_ingest(dags):
    (asset,) = dags["trace_ingest"].timetable.asset_condition.objects
    when = {"min_messages": 500, "max_age": 61, "poll_interval": 11, "hold": 600, "once": False}
    assert {watcher.name: watcher.trigger.serialize()[1] for watcher in asset.watchers} == {
        name: {"cluster": name, **when} for name in ("c1", "c2")
    }


def test_records_start_the_marts(dags):
    names = {asset.name for asset in dags["trace_marts"].timetable.asset_condition.objects}
    assert names == {"lake.events.trace_records"}
    assert [a.name for a in dags["trace_ingest"].get_task("announce").outlets] == [
        "lake.events.trace_records"
    ]


def test_a_cluster_that_could_not_be_read_fails_in_a_task_of_its_own(dags):
    from airflow.sdk.exceptions import AirflowFailException

    extracted = dags["trace_ingest"].get_task("extracted")
    assert [each["cluster"] for each in extracted.op_kwargs_expand_input.value] == ["c1", "c2"]
    failures = {"c2": ["cluster c2: no route", "queue c2/t/b/0: gone"]}
    extracted.python_callable("c1", failures)
    with pytest.raises(AirflowFailException, match="cluster c2: no route\nqueue c2/t/b/0: gone"):
        extracted.python_callable("c2", failures)


def test_a_mapped_task_has_the_same_name_when_it_was_killed(dags):
    """Then the DAG processor calls back, with the task as the file has it and nothing rendered."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    from plugins.notifier import task_name, task_names

    dag = dags["trace_ingest"]
    killed = RuntimeTaskInstance.model_construct(
        **{"id": uuid4(), "dag_id": dag.dag_id, "task_id": "extracted", "run_id": "r", "try_number": 1},
        **{"map_index": 1, "task": dag.get_task("extracted")},
    )
    assert task_name(killed.get_template_context()["ti"]) == "trace_ingest/extracted/c2"
    assert task_names(dag) == {
        *("trace_ingest/extracted/c1", "trace_ingest/extracted/c2"),
        *("trace_ingest/ingest", "trace_ingest/announce"),
    }


def test_a_missing_connection_does_not_stop_the_watchdog(dags):
    """It checks the other clusters, and reports the missing secret of this one."""
    from airflow.sdk.execution_time.context import ConnectionAccessor

    (task,) = dags["trace_watchdog"].tasks
    render = task.dag.get_template_env().from_string
    for name in ("C2_ACCESS_KEY", "C2_SECRET_KEY", "C2_SECURITY_TOKEN"):
        assert render(task.env[name]).render(conn=ConnectionAccessor()) == "", name


def test_secrets_come_from_the_airflow_connection_and_are_masked(dags, monkeypatch):
    from airflow.sdk.execution_time.context import ConnectionAccessor
    from airflow.sdk.log import redact

    connection = {"login": "key", "password": "hush-7", "extra": {"security_token": "token-9"}}
    monkeypatch.setenv("AIRFLOW_CONN_ROCKETMQ_C2", json.dumps({"conn_type": "generic", **connection}))
    ingest = dags["trace_ingest"].get_task("ingest")
    rendered = {
        name: ingest.dag.get_template_env().from_string(text).render(conn=ConnectionAccessor())
        for name, text in ingest.env_vars.items()
    }
    assert rendered == {
        "C2_ACCESS_KEY": "key",
        "C2_SECRET_KEY": "hush-7",
        "C2_SECURITY_TOKEN": "token-9",
    }
    assert "hush-7" not in str(redact(rendered))
