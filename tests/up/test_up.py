"""`make up DASHBOARDS=1`: a whole Airflow and Superset in the background, the schedule, their pages, and their end."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from deploy import child_process, show
from deploy.airflow_components import PASSWORDS, password_of
from deploy.dashboards import assets
from deploy.dashboards.service import ADMIN, Superset, is_healthy
from deploy.home_lock import lock_file
from deploy.up import State
from sandbox import admin, proof
from sandbox.scenarios import TRACE_TOPICS
from spark_jobs.alerts import tasks
from spark_jobs.process.file_lock import holder, processes_with
from tests.checks.loopback import alertmanager, needs_alertmanager, receiver
from tests.e2e.airflow_api import AirflowApi
from tests.e2e.dashboards import Api
from tests.e2e.demos import jobs_of, merges
from tests.e2e.world import World, records_by_type
from tests.lineage_sink import Event, Sink, wrote
from tests.up.commands import (
    DASHBOARDS_PORT,
    DASHBOARDS_URL,
    PORT,
    left_by_a_killed_run,
    make_up,
    make_up_dashboards,
    produce,
)
from tests.up.dag_files import FRAGILE, SLOW, WAITING

RUN_SECONDS = 1200
NEVER = "0 0 29 2 *"  # but once, when the DAG is unpaused
INTERVAL = 40  # of the watchdog; Alertmanager keeps an alert for three


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
def killed_run(world) -> str:
    """The id of the run that a killed `make run` left unfinished in Airflow's database."""
    return left_by_a_killed_run(world)


@pytest.fixture(scope="module")
def alertmanager_url(tmp_path_factory) -> Iterator[str]:
    with receiver() as hook, alertmanager(tmp_path_factory.mktemp("am"), hook.url, "1m") as url:
        yield url


@pytest.fixture(scope="module")
def mended(tmp_path_factory) -> Path:
    """The DAG `fragile` fails until this file is there."""
    return tmp_path_factory.mktemp("fragile") / "mended"


@pytest.fixture(scope="module")
def quick(mended) -> Path:
    """The task of the DAG `slow` ends at once when this file is there."""
    return mended.with_name("quick")


@pytest.fixture(scope="module")
def airflow(
    world, sink, killed_run, alertmanager_url, mended, quick, tmp_path_factory
) -> Iterator[AirflowApi]:
    """A running Airflow with three more DAGs, and a logged-in client; it sends lineage to a sink.

    Messages wait for its first run, whose merge is killed.
    """
    more = tmp_path_factory.mktemp("dags")
    (more / "waiting.py").write_text(WAITING)
    (more / "fragile.py").write_text(FRAGILE % {"mended": mended})
    (more / "slow.py").write_text(SLOW % {"quick": quick})
    environment = {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": bundles(project=None, more=str(more)),
        "TRACE_LINEAGE__URL": f"http://127.0.0.1:{sink.port}",
        "TRACE_ALERTS__ALERTMANAGER": json.dumps([alertmanager_url]),
        "TRACE_ALERTS__INTERVAL_SECONDS": str(INTERVAL),
        "TRACE_SCHEDULES__INGEST": NEVER,
        "TRACE_SCHEDULES__POLL_SECONDS": "0",
        "TRACE_SCHEDULES__MARTS": NEVER,
    }
    home = world.settings.home / "airflow"
    # Of a `make up` that is long gone, and whose pids are others' now.
    (home / "up.json").write_text(json.dumps({"serve": os.getpid(), "ready": True, "components": {}}))
    started = make_up_dashboards(world, **environment)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        assert str(home / PASSWORDS) in started.stdout
        assert "warning: nothing outside this machine notices when it is off" in started.stdout
        superset = Superset(world.settings)
        assert f"dashboards: {DASHBOARDS_URL}," in started.stdout
        assert str(superset.password_file) in started.stdout
        assert password_of(home) not in started.stdout + logs_of(home)
        found = AirflowApi(f"http://127.0.0.1:{PORT}")
        found.log_in(password_of(home))
        until = time.monotonic() + RUN_SECONDS
        while not merges(world.settings.home):
            assert time.monotonic() < until, "the first run did not come to its merge"
            time.sleep(0.1)
        os.kill(jobs_of(world.settings.home, "ingest")[0], signal.SIGKILL)
        yield found
    finally:
        make_up(world, "down")


def started_by_records(airflow: AirflowApi) -> list[str]:
    return [r["dag_run_id"] for r in airflow.runs("trace_marts") if r["run_type"] == "asset_triggered"]


def ingested(airflow: AirflowApi, run: str) -> dict[str, str]:
    """The states of the tasks of a run of `trace_ingest`, when it has ended well."""
    airflow.wait_for_success("trace_ingest", run, RUN_SECONDS)
    return airflow.task_states("trace_ingest", run)


def logs_of(home: Path) -> str:
    """The logs of all components."""
    return "".join(file.read_text() for file in (home / "components").glob("*.log"))


def ingest_logs(world: World) -> dict[str, str]:
    """The logs of the task `ingest`: "run_id=…" to the text of its last try."""
    logs = world.settings.home / "airflow" / "logs" / "dag_id=trace_ingest"
    return {
        file.parent.parent.name: file.read_text()
        for file in sorted(logs.glob("run_id=*/task_id=ingest/*.log"))
    }


def first_run(airflow: AirflowApi) -> str:
    """The run that the schedule starts as soon as the DAG is not paused."""
    until = time.monotonic() + 60
    while not (runs := [r for r in airflow.runs("trace_ingest") if r["run_type"] == "scheduled"]):
        assert time.monotonic() < until, "trace_ingest was not scheduled"
        time.sleep(1)
    return runs[0]["dag_run_id"]


def test_unfinished_runs_of_a_killed_make_run_are_marked_as_failed(world, airflow, killed_run):
    runs = {run["dag_run_id"]: run["state"] for run in airflow.runs("trace_ingest")}
    assert runs[killed_run] == "failed"
    states = airflow.task_states("trace_ingest", killed_run)
    assert not set(states.values()) & {"running", "queued", "scheduled", "up_for_retry", None}, states


def test_other_components_start_after_the_api_server_answers(world, airflow):
    lines = State(world.settings).log.read_text().splitlines()
    started = [line.split(" INFO ")[1].partition(":")[0] for line in lines if ": started (pid" in line]
    assert started == ["api-server", "cleanup", "dashboards", "scheduler", "dag-processor", "triggerer"]
    at = [datetime.fromisoformat(line[:19]) for line in lines if ": started (pid" in line]
    assert at[3] - at[0] > timedelta(seconds=2), "no api-server answers so soon"


def test_up_is_healthy_and_a_second_up_reports_it(world, airflow):
    assert airflow.health()["triggerer"] == "healthy"
    again = make_up(world, "up")
    assert again.returncode == 0
    assert f"already up: {airflow.url}" in again.stdout
    assert make_up(world, "status").returncode == 0


def test_pages_need_the_password_whose_file_is_private(world, airflow):
    passwords = world.settings.home / "airflow" / PASSWORDS
    assert stat.S_IMODE(passwords.stat().st_mode) == 0o600
    for page in ("/api/v2/dags", "/trace-warehouse/alerts", "/trace-warehouse/runs/trace_ingest/any"):
        assert httpx.get(airflow.url + page).status_code == 401, page


def test_a_browser_is_redirected_to_the_login_and_back_to_the_page(world, airflow):
    browser, page = {"Accept": "text/html"}, "/trace-warehouse/alerts?from=mail"
    login = httpx.get(airflow.url + page, headers=browser, follow_redirects=True)
    assert login.status_code == 200
    assert (login.url.path, login.url.params["next"]) == ("/auth/login", page)
    assert airflow.page(login.url.params["next"]).status_code == 200
    # What another site may put there, Airflow refuses.
    elsewhere = httpx.get(f"{airflow.url}/api/v2/auth/login", params={"next": "https://evil.example/"})
    assert elsewhere.status_code == 400


def test_a_rocketmq_connection_has_a_form_and_can_be_tested(world, airflow):
    forms = {form["connection_type"]: form for form in airflow.call("GET", "/ui/connections/hook_meta")}
    assert forms["rocketmq"]["standard_fields"]["password"]["title"] == "Secret key"
    body = {"connection_id": "shown", "conn_type": "rocketmq", "host": world.sandbox.namesrv}
    body |= {"extra": json.dumps({"topics": TRACE_TOPICS[0]})}
    tested = airflow.call("POST", "/api/v2/connections/test", json=body)
    assert tested["status"], tested
    assert f"{TRACE_TOPICS[0]}: 1 queues on broker-a hold " in tested["message"]


def test_trace_ingest_starts_trace_marts_when_records_came_and_only_then(world, airflow):
    """A build by hand meanwhile, which no pool of Airflow's holds back, waits for that of the DAG."""
    run = first_run(airflow)
    assert run.split("-", 1)[1].startswith("02-29T"), "the schedule of the `make run` before it was applied"
    assert ingested(airflow, run)["announce"] == "success"
    assert airflow.tries("trace_ingest", run, "ingest") == 2, "the first one was killed"
    until = time.monotonic() + RUN_SECONDS  # a run that the timer started is built to its end first
    lock = world.settings.home / "dbt" / "build.lock"
    while (
        builder := holder(lock)
    ) is None or builder.command != "marts":  # not the question whether one is due
        assert time.monotonic() < until, "records came, and no marts are built"
        time.sleep(0.1)
    by_hand = subprocess.run(
        [sys.executable, "-m", "spark_jobs.jobs.marts"],
        env=world.environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert by_hand.returncode == 0, by_hand
    assert f"`marts` (pid {builder.pid}, since " in by_hand.stderr
    assert " builds the marts: waiting for it" in by_hand.stderr
    while not (started := started_by_records(airflow)):
        assert time.monotonic() < until, "records came, and no run of trace_marts started"
        time.sleep(1)
    airflow.wait_for_success("trace_marts", started[0], RUN_SECONDS)
    assert ingested(airflow, airflow.trigger("trace_ingest"))["announce"] == "skipped"
    assert started_by_records(airflow) == started


def test_superset_starts_beside_airflow_on_loopback_when_there_are_marts(world, airflow):
    until = time.monotonic() + 300  # it creates its database then
    while not is_healthy(DASHBOARDS_PORT):
        assert time.monotonic() < until, "there are marts, and Superset does not answer"
        time.sleep(1)
    login = httpx.get(DASHBOARDS_URL, follow_redirects=True)
    assert login.status_code == 200
    assert login.url.path == "/login/"
    assert httpx.get(f"{DASHBOARDS_URL}/api/v1/me/").status_code == 401
    password = Superset(world.settings).password_file.read_text()
    assert password not in logs_of(world.settings.home / "airflow")
    assert Api(DASHBOARDS_URL, ADMIN, password).get("/api/v1/dashboard/")["count"] == len(
        assets.read().dashboards
    )
    assert listening(DASHBOARDS_PORT) == {"127.0.0.1"}
    shown = make_up(world, "status").stdout
    assert f"dashboards at {DASHBOARDS_URL}" in shown
    (row,) = [line for line in shown.splitlines() if "dashboards" in line and "│" in line]
    assert "healthy" in row


def listening(port: int) -> set[str]:
    """The IPv4 and IPv6 addresses on which a process listens at a port."""
    found = set()
    for file, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]:
            address, of_port = line.split()[1].split(":")
            if line.split()[3] == "0A" and int(of_port, 16) == port:
                words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
                found.add(socket.inet_ntop(family, b"".join(words)))
    return found


def test_neither_kill_has_lost_or_doubled_anything(world, airflow):
    """That of `make run` while it read, and that of a merge."""
    counts = proof.proof(world.settings, "demo", admin.trace_offsets(world.sandbox.namesrv, TRACE_TOPICS))
    assert counts["trace_messages_broker"] == counts["raw_rows"] > 0
    assert records_by_type(world) == world.record().expected()


def test_lineage_leads_from_a_table_to_the_task_that_wrote_it(world, airflow, sink):
    """A query's event names its Spark application as parent, and that one's the task."""

    def parent(event: Event) -> Event:
        return event["run"]["facets"]["parent"]

    ingest = {"trace_ingest.ingest"}
    for table, writers in {
        "raw.trace_messages": ingest,
        "events.trace_records": ingest,
        "marts.consumer_group_success": {"trace_marts.build", *ingest},
    }.items():
        applications = {parent(event)["run"]["runId"] for event in sink.wait_for(wrote(table), 30)}
        assert applications, table
        events = [event for event in sink.events if event["run"]["runId"] in applications]
        assert {parent(event)["job"]["name"] for event in events} <= writers, table


def test_trace_backfill_follows_its_form_and_its_page_shows_the_result(world, airflow):
    today = datetime.now(UTC).date()
    asked = {"start": str(today - timedelta(days=1)), "end": str(today + timedelta(days=1))}
    looked = airflow.trigger("trace_backfill", **asked)
    done = airflow.trigger("trace_backfill", **asked, what="reextract", dry_run=False)
    for run, task, other in ((looked, "replay", "reextract"), (done, "reextract", "replay")):
        airflow.wait_for_success("trace_backfill", run, RUN_SECONDS)
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
    produce(world, 20)
    airflow.wait_for_success("waiting", run, 60)
    xcom = f"/api/v2/dags/waiting/dagRuns/{run}/taskInstances/new_messages/xcomEntries/return_value"
    unread = airflow.call("GET", xcom, params={"deserialize": True})["value"]
    assert sum(unread.values()) > 0
    assert all(queue.startswith("demo/") for queue in unread)


def test_a_failed_task_is_an_alert_until_it_succeeds(world, airflow, mended):
    def alerts(ends: str) -> list[tuple[str, str, str, str]]:
        """Of the tasks of `fragile`, after another run of it; its callbacks may write them after it has ended."""
        assert airflow.wait("fragile", airflow.trigger("fragile"), 120) == ends
        state = "open" if ends == "failed" else "resolved"
        until = time.monotonic() + 60
        while True:
            rows = show.rows(world.settings, "ops.alerts").to_pylist()
            found = [
                (row["entity"], row["state"], row["route"], row["runbook_url"])
                for row in rows
                if row["check"] == "task_failed" and "fragile" in row["entity"]
            ]
            if {row[1] for row in found} == {state} or time.monotonic() > until:
                return found
            time.sleep(1)

    alert = ("pipeline", f"{airflow.url}/trace-warehouse/runbooks/task_failed.md")
    assert alerts("failed") == [("fragile/break/b", "open", *alert)]
    mended.touch()
    assert alerts("success") == [("fragile/break/b", "resolved", *alert)]


def components(world: World) -> dict[str, dict]:
    return State(world.settings).read()["components"]


def until_healthy(world: World, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while any(each["state"] != "healthy" for each in components(world).values()):
        assert time.monotonic() < until, components(world)
        time.sleep(0.5)


@needs_alertmanager
def test_a_dead_scheduler_is_restarted_and_resolves_no_alert(world, airflow, alertmanager_url, quick):
    """The watchdog runs in the Airflow that it watches. A task that failed is an open alert of the lake meanwhile.

    The task that ran is dead, too, and runs again.
    """

    def active() -> dict[str, str]:
        found = httpx.get(f"{alertmanager_url}/api/v2/alerts", params={"active": True}).json()
        return {each["labels"].get("entity", ""): each["startsAt"] for each in found}

    tasks.task_ended(world.settings, "any/task", True, "its log", "any", datetime.now(UTC))
    until = time.monotonic() + 240
    while "any/task" not in (since := active()):  # the watchdog sends it
        assert time.monotonic() < until, since
        time.sleep(1)
    run = airflow.trigger("slow")
    until = time.monotonic() + 60
    while airflow.task_states("slow", run) != {"sleep": "running"}:
        assert time.monotonic() < until, airflow.task_states("slow", run)
        time.sleep(0.5)
    quick.touch()
    first = components(world)["scheduler"]["pid"]
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 3.3 * INTERVAL
    while time.monotonic() < until:
        assert active()["any/task"] == since["any/task"], "it was resolved"
        time.sleep(1)
    until_healthy(world)
    scheduler = components(world)["scheduler"]
    assert scheduler["pid"] != first
    assert (scheduler["restarts"], scheduler["last_end"]) == (1, "ended with code -9")
    airflow.wait_for_success("slow", run, 60)
    assert make_up(world, "status").returncode in (0, 1)  # 1 while the alert of the silence stands
    tasks.task_ended(world.settings, "any/task", False, "its log", "any", datetime.now(UTC))


def test_a_dead_superset_is_restarted(world, airflow):
    """Its server is killed, then the process that started the server."""
    until_healthy(world)
    for kill in (superset_servers, lambda: [components(world)["dashboards"]["pid"]]):
        before = components(world)["dashboards"]
        for pid in kill():
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 60
        while components(world)["dashboards"]["restarts"] == before["restarts"]:
            assert time.monotonic() < until, components(world)
            time.sleep(0.2)
        until_healthy(world)
        assert components(world)["dashboards"]["pid"] != before["pid"]
        assert httpx.get(f"{DASHBOARDS_URL}/login/").status_code == 200


def superset_servers() -> list[int]:
    """The processes of the server on the port of the dashboards."""
    bound = f"127.0.0.1:{DASHBOARDS_PORT}".encode()
    return [
        int(process.parent.name)
        for process in Path("/proc").glob("[0-9]*/cmdline")
        if bound in (words := read(process).split(b"\0")) and b"gunicorn" in words
    ]


def read(process: Path) -> bytes:
    try:
        return process.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def test_up_restarts_dead_components(world, airflow):
    """A component is dead; then the supervisor is, and so is what would end the components with it."""
    until_healthy(world)
    first = components(world)["triggerer"]["pid"]
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 30
    while components(world)["triggerer"]["state"] == "healthy":
        assert time.monotonic() < until
        time.sleep(0.2)
    shown = make_up(world, "status")
    assert shown.returncode == 1
    assert "ended with code -9" in shown.stdout
    again = make_up(world, "up")
    assert again.returncode == 0, again.stdout
    # The supervisor may have been faster.
    if f"already up: {airflow.url}" not in again.stdout:
        assert "triggerer: " in again.stdout
        assert f"up again: {airflow.url}" in again.stdout
    until_healthy(world)
    assert components(world)["triggerer"]["pid"] != first


def test_up_replaces_a_killed_supervisor_and_ends_its_components(world, airflow):
    state = State(world.settings)
    before = {each["pid"] for each in components(world).values()}
    guards = [
        pid
        for leader in before
        for pid in child_process.session_of(leader)
        if b"child_process.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert len(guards) == len(before)
    killed = state.supervisor()
    for pid in (*guards, killed):
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while state.supervisor() is not None:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert "still run" in make_up(world, "status").stdout
    again = make_up(world, "up", TRACE_SCHEDULES__INGEST=NEVER)
    assert again.returncode == 0, again.stdout
    assert f"`make up` (pid {killed}" in again.stdout
    assert "ending its remaining processes" in again.stdout
    assert not [pid for leader in before for pid in child_process.session_of(leader)]
    assert not before & {each["pid"] for each in components(world).values()}


def test_new_messages_start_the_ingest_in_the_driver_that_stays(world, airflow):
    """This `make up` sends no lineage, so it has a driver. It builds the marts, too, unless `trace_marts` is paused.

    The timer of `trace_ingest` starts nothing.
    """
    until_healthy(world)
    driver = components(world)["driver"]["pid"]
    before = {run["dag_run_id"] for run in airflow.runs("trace_ingest")}
    produce(world, 20)
    until = time.monotonic() + RUN_SECONDS  # a run for what was sent before may build the marts first
    while not (runs := [r for r in airflow.runs("trace_ingest") if r["dag_run_id"] not in before]):
        assert time.monotonic() < until, "there are new messages, and no run of trace_ingest started"
        time.sleep(1)
    assert {run["run_type"] for run in runs} == {"asset_triggered"}
    airflow.wait_for_success("trace_ingest", runs[0]["dag_run_id"], RUN_SECONDS)
    of_driver = f"ingest runs in the driver of `make up`, process {driver}"
    until = time.monotonic() + RUN_SECONDS
    while not any(of_driver in text and "marts published" in text for text in ingest_logs(world).values()):
        # It came before the messages, or `trace_marts` was building the marts.
        assert time.monotonic() < until, {run: text[-1000:] for run, text in ingest_logs(world).items()}
        for run in airflow.runs("trace_marts"):
            airflow.wait("trace_marts", run["dag_run_id"], RUN_SECONDS)
        produce(world, 2)
        airflow.wait_for_success("trace_ingest", airflow.trigger("trace_ingest"), RUN_SECONDS)
    assert components(world)["driver"]["pid"] == driver


def test_records_are_announced_while_trace_marts_is_paused_and_a_run_of_it_is_queued(world, airflow):
    """A run that an event of the Asset created has no start date while it is queued, and Airflow cannot list that event."""
    for run in airflow.runs("trace_marts"):
        airflow.wait("trace_marts", run["dag_run_id"], RUN_SECONDS)
    airflow.pause("trace_marts")
    queued = started_by_records(airflow)[-1]
    airflow.queue("trace_marts", queued)
    before = {run["dag_run_id"] for run in airflow.runs("trace_ingest")}
    produce(world, 2)
    by_hand = airflow.trigger("trace_ingest")
    ingested(airflow, by_hand)
    # The new messages may have started a run of their own.
    new = {run["dag_run_id"] for run in airflow.runs("trace_ingest")} - before
    assert "success" in [ingested(airflow, run)["announce"] for run in new]
    assert "no marts are built, as the DAG trace_marts is paused" in ingest_logs(world)[f"run_id={by_hand}"]
    (run,) = [each for each in airflow.runs("trace_marts") if each["dag_run_id"] == queued]
    assert (run["state"], run["start_date"]) == ("queued", None)
    airflow.pause("trace_marts", False)
    proof.proof(world.settings, "demo", admin.trace_offsets(world.sandbox.namesrv, TRACE_TOPICS))


def test_down_ends_all_processes_of_up_and_no_others(world, airflow):
    state = State(world.settings)
    file = lock_file(world.settings.home)
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        assert len(processes_with(file)) >= 11, "the supervisor, the components and their guard processes"
        assert superset_servers()
        assert make_up(world, "down").returncode == 0
        assert superset_servers() == []
        assert listening(DASHBOARDS_PORT) == set()
        assert processes_with(file) == []
        assert state.user() is None
        assert bystander.poll() is None
        assert world.sandbox.broker_pid  # raises where the broker is gone
    finally:
        bystander.kill()
        bystander.wait()
    assert make_up(world, "status").returncode == 3
    assert "not up" in make_up(world, "down").stdout
