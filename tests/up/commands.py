"""`make up` over the world of the tests, and the killed `make run` that comes before it."""

from __future__ import annotations

import base64
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

from deploy.up import State
from sandbox.broker import TRACE_TOPIC
from spark_jobs.settings import PROJECT
from tests.e2e.demos import data_files, jobs_of
from tests.e2e.world import World, run_variables
from tests.faults.jobs.bodies import body
from tests.rocketmq import java_client

PORT = 20_917
DASHBOARDS_PORT = 20_918
DASHBOARDS_URL = f"http://127.0.0.1:{DASHBOARDS_PORT}"


def make_up_dashboards(world: World, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make up DASHBOARDS=1`."""
    ports = {"PORT": str(PORT), "DASHBOARDS": "1", "DASHBOARDS_PORT": str(DASHBOARDS_PORT)}
    return subprocess.run(
        ["make", "up"],
        cwd=PROJECT,
        env=world.environment | environment | ports,
        capture_output=True,
        text=True,
        timeout=600,
    )


def make_up(world: World, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `make up`, `make down` and `make status` run."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "deploy.up", command, "--port", str(PORT)),
            *("--dashboards", "--dashboards-port", str(DASHBOARDS_PORT)),
        ],
        env=world.environment | environment,
        capture_output=True,
        text=True,
        timeout=400,
    )


def produce(world: World, messages: int) -> None:
    """Write trace messages, as clients would that send and consume nothing else."""
    bodies = [base64.b64encode(body(number)).decode() for number in range(messages)]
    # With credentials, of which this broker asks for none, the topic is not created.
    request = {"do": "produce", "topic": TRACE_TOPIC, "bodies": bodies, "credentials": ["any", "secret"]}
    java_client.run(world.sandbox.namesrv, world.sandbox.folder / "java", [request])


def left_by_a_killed_run(world: World) -> str:
    """Kill `make run` while it writes what it has read; what else wants the folder meanwhile is refused with one line."""
    environment = world.environment | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "deploy.run_once", "--namesrv", world.sandbox.namesrv]
    log = world.settings.home / "logs" / "trace_ingest.log"
    log.unlink(missing_ok=True)
    before, files = started_by_test(world), data_files(world.settings.home)
    first = subprocess.Popen(
        ["make", "run", *run_variables(world)],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 300  # it creates Airflow's database first
        while not (new := started_by_test(world) - before):
            assert first.poll() is None
            assert time.monotonic() < until, "no DAG run started"
            time.sleep(0.5)
        size = log.stat().st_size
        second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert second.returncode not in (0, None)
        (line,) = second.stderr.splitlines()
        user = State(world.settings).user()
        assert line.startswith(f"`make run` (pid {user.pid}, since ")
        assert line.endswith(f") is using {world.settings.home}: wait for it, or end it with Ctrl-C")
        refused = make_up(world, "up")
        assert refused.returncode == 1
        assert refused.stdout.strip() == line
        assert log.stat().st_size >= size, "the second wrote into the log of the first"
        while data_files(world.settings.home) == files:
            assert first.poll() is None
            assert time.monotonic() < until, "it has read nothing"
            time.sleep(0.05)
    finally:
        if user := State(world.settings).user():
            os.kill(user.pid, signal.SIGKILL)
        first.wait(30)
    until = time.monotonic() + 30
    while left := jobs_of(world.settings.home, "ingest"):
        assert time.monotonic() < until, left
        time.sleep(0.2)
    (run,) = new
    return run


def started_by_test(world: World) -> set[str]:
    """The runs of `airflow dags test trace_ingest` that Airflow takes for running."""
    file = world.settings.home / "airflow" / "airflow.db"
    if not file.exists():
        return set()
    with (
        closing(sqlite3.connect(file)) as database,
        suppress(sqlite3.OperationalError),
    ):  # before the migration
        rows = database.execute(
            "select run_id from dag_run where dag_id = 'trace_ingest' and state = 'running'"
        )
        return {run for (run,) in rows}
    return set()
