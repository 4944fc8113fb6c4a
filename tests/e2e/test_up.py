"""`make up`: a whole Airflow in the background, its schedule, its pages, and its end."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from sandbox.scheduler import PASSWORDS, Airflow, password_of
from sandbox.traffic import generate
from sandbox.up import State
from tests.e2e.conftest import World
from tests.lineage_sink import Event, Sink, wrote

RUN_SECONDS = 1200
PORT = 20_917
WAITING = """
from datetime import UTC, datetime

from airflow.sdk import dag

from plugins.trace_messages import TraceMessagesSensor


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), is_paused_upon_creation=False)
def waiting() -> None:
    TraceMessagesSensor(task_id="new_messages", cluster="demo", poke_interval=1)


waiting()
"""


def make(world: World, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `make up`, `make down` and `make status` run."""
    return subprocess.run(
        [sys.executable, "-m", "sandbox.up", command, "--port", str(PORT)],
        env=world.environment | environment,
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    found = Sink()
    yield found
    found.close()


def bundles(**folders: str | None) -> str:
    """Folders of DAGs; None is that of the project."""
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return json.dumps([{"name": n, "classpath": local, "kwargs": {"path": p}} for n, p in folders.items()])


@pytest.fixture(scope="module")
def airflow(world, sink, tmp_path_factory) -> Iterator[Airflow]:
    """A running Airflow with one more DAG, logged in to as its owner would; it tells a sink of lineage."""
    more = tmp_path_factory.mktemp("dags")
    (more / "waiting.py").write_text(WAITING)
    environment = {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": bundles(project=None, more=str(more)),
        "TRACE_LINEAGE__URL": f"http://127.0.0.1:{sink.port}",
    }
    generate(world.sandbox.namesrv, 20, world.traffic)  # something for the first run
    home = world.settings.home / "airflow"
    (home / "up.lock").write_text(str(os.getpid()))  # of a process that is long gone: no lock is on it
    started = make(world, "up", **environment)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        assert str(home / PASSWORDS) in started.stdout
        assert password_of(home) not in started.stdout + State(world.settings).log.read_text()
        found = Airflow(f"http://127.0.0.1:{PORT}")
        found.log_in(password_of(home))
        yield found
    finally:
        make(world, "down")


def started_by_records(airflow: Airflow) -> list[str]:
    return [r["dag_run_id"] for r in airflow.runs("trace_marts") if r["run_type"] == "asset_triggered"]


def ingested(airflow: Airflow, run: str) -> dict[str, str]:
    """The states of the tasks of a run of `trace_ingest`, when it has ended well."""
    assert airflow.wait("trace_ingest", run, RUN_SECONDS) == "success"
    return airflow.task_states("trace_ingest", run)


def first_run(airflow: Airflow) -> str:
    """The run that the schedule starts as soon as the DAG is not paused."""
    until = time.monotonic() + 60
    while not (runs := [r for r in airflow.runs("trace_ingest") if r["run_type"] == "scheduled"]):
        assert time.monotonic() < until, "trace_ingest was not scheduled"
        time.sleep(1)
    return runs[0]["dag_run_id"]


def test_up_is_healthy_with_its_triggerer_and_says_so_when_asked_again(world, airflow):
    assert airflow.health()["triggerer"] == "healthy"
    again = make(world, "up")
    assert again.returncode == 0
    assert f"up already: {airflow.url}" in again.stdout
    assert make(world, "status").returncode == 0


def test_nobody_looks_without_the_password_which_only_its_owner_can_read(world, airflow):
    passwords = world.settings.home / "airflow" / PASSWORDS
    assert stat.S_IMODE(passwords.stat().st_mode) == 0o600
    for page in ("/api/v2/dags", "/trace-warehouse/alerts", "/trace-warehouse/runs/trace_ingest/any"):
        assert httpx.get(airflow.url + page).status_code == 401, page


def test_a_rocketmq_connection_has_a_form_and_can_be_tested(world, airflow):
    forms = {form["connection_type"]: form for form in airflow.call("GET", "/ui/connections/hook_meta")}
    assert forms["rocketmq"]["standard_fields"]["password"]["title"] == "Secret key"
    body = {"connection_id": "shown", "conn_type": "rocketmq", "host": world.sandbox.namesrv}
    tested = airflow.call("POST", "/api/v2/connections/test", json=body)
    assert tested["status"], tested
    assert "RMQ_SYS_TRACE_TOPIC: 1 queues on broker-a hold " in tested["message"]


def test_trace_ingest_starts_trace_marts_when_records_came_and_only_then(world, airflow):
    assert ingested(airflow, first_run(airflow))["announce"] == "success"
    assert ingested(airflow, airflow.trigger("trace_ingest"))["announce"] == "skipped"
    until = time.monotonic() + RUN_SECONDS  # a run that the timer started is built to its end first
    while not (started := started_by_records(airflow)):
        assert time.monotonic() < until, "records came, and no run of trace_marts started"
        time.sleep(1)
    assert airflow.wait("trace_marts", started[0], RUN_SECONDS) == "success"
    assert started_by_records(airflow) == started


def test_lineage_leads_from_a_table_to_the_task_that_wrote_it(world, airflow, sink):
    """A query's event names its Spark application as parent, and that one's the task."""

    def parent(event: Event) -> Event:
        return event["run"]["facets"]["parent"]

    for table, task in {
        "raw.trace_messages": "trace_ingest.extract",
        "events.trace_records": "trace_ingest.merge",
        "marts.consumer_group_success": "trace_marts.build",
    }.items():
        applications = {parent(event)["run"]["runId"] for event in sink.wait_for(wrote(table), 30)}
        assert applications, table
        told = [event for event in sink.events if event["run"]["runId"] in applications]
        assert {parent(event)["job"]["name"] for event in told} == {task}, table


def test_trace_backfill_reads_again_what_its_form_asks_for_and_its_page_shows_it(world, airflow):
    today = datetime.now(UTC).date()
    asked = {"start": str(today - timedelta(days=1)), "end": str(today + timedelta(days=1))}
    looked = airflow.trigger("trace_backfill", **asked)
    done = airflow.trigger("trace_backfill", **asked, what="reextract", dry_run=False)
    for run, task, other in ((looked, "replay", "reextract"), (done, "reextract", "replay")):
        assert airflow.wait("trace_backfill", run, RUN_SECONDS) == "success"
        states = airflow.task_states("trace_backfill", run)
        assert (states[task], states[other]) == ("success", "skipped")
    pages = {run: airflow.page(f"/trace-warehouse/runs/trace_backfill/{run}").text for run in (looked, done)}
    assert "Nothing that is on main" in pages[looked]
    assert "lake.raw.trace_messages" in pages[done]
    runs = set(world.table("raw.trace_messages", "run_id")["run_id"].to_pylist())
    assert f"trace_backfill/{done}" in runs
    assert f"trace_backfill/{looked}" not in runs


def test_a_sensor_waits_in_the_triggerer_until_messages_come(world, airflow):
    run = airflow.trigger("waiting")
    until = time.monotonic() + 60
    while airflow.task_states("waiting", run) != {"new_messages": "deferred"}:
        assert time.monotonic() < until, airflow.task_states("waiting", run)
        time.sleep(0.5)
    generate(world.sandbox.namesrv, 20, world.traffic)
    assert airflow.wait("waiting", run, 60) == "success"
    xcom = f"/api/v2/dags/waiting/dagRuns/{run}/taskInstances/new_messages/xcomEntries/return_value"
    unread = airflow.call("GET", xcom, params={"deserialize": True})["value"]
    assert sum(unread.values()) > 0
    assert all(queue.startswith("demo/") for queue in unread)


def test_a_component_that_dies_is_named(world, airflow):
    os.kill(State(world.settings).read()["pids"]["triggerer"], signal.SIGKILL)
    until = time.monotonic() + 30
    while (shown := make(world, "status")).returncode == 0:
        assert time.monotonic() < until, shown.stdout
    assert "triggerer: read the log" in shown.stdout


def test_down_ends_all_of_it_and_nothing_else(world, airflow):
    state = State(world.settings)
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        assert state.left_over()
        assert make(world, "down").returncode == 0
        assert state.left_over() == []
        assert state.holder() is None
        assert bystander.poll() is None
        assert world.sandbox.broker_pid  # raises where the broker is gone
    finally:
        bystander.kill()
        bystander.wait()
    assert make(world, "status").returncode == 3
    assert "not up" in make(world, "down").stdout
