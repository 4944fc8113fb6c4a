"""A whole Airflow on loopback: api-server, scheduler and dag-processor as children of this process."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from sandbox import leash

START_SECONDS = 90
STOP_SECONDS = 10


class Airflow:
    """The REST API of a running Airflow, as far as a look at DAG runs needs it."""

    def __init__(self, url: str):
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=30)

    def ready(self) -> bool:
        """All components say that they are healthy."""
        try:
            health = self._client.get("/api/v2/monitor/health").raise_for_status().json()
        except httpx.HTTPError:
            return False
        return all(
            health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor", "metadatabase")
        )

    def log_in(self) -> None:
        token = self._client.get("/auth/token").raise_for_status().json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def dags(self) -> set[str]:
        return {dag["dag_id"] for dag in self._call("GET", "/api/v2/dags")["dags"]}

    def unpause(self, dag_id: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def trigger(self, dag_id: str) -> str:
        """Start a run; returns its id."""
        return self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None})["dag_run_id"]

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        found = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def wait(self, dag_id: str, run_id: str, seconds: float) -> str:
        """The state in which a run ended.

        Raises:
            TimeoutError: it has not ended.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            state = next(run["state"] for run in self.runs(dag_id) if run["dag_run_id"] == run_id)
            if state in ("success", "failed"):
                return state
            time.sleep(1)
        raise TimeoutError(f"run {run_id} of {dag_id} has not ended after {seconds:.0f} s")

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        return self._client.request(method, path, **arguments).raise_for_status().json()


@contextmanager
def running(environment: dict[str, str]) -> Iterator[Airflow]:
    """Start the components, wait until they are healthy, end them.

    Args:
        environment: as `pipeline.prepare` returns it.

    Raises:
        RuntimeError: a component ended, or did not get ready; the message names the logs.
    """
    home = Path(environment["AIRFLOW_HOME"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    environment = environment | {
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",  # a process each, started at once
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": _secret(home / "api-secret"),
        "AIRFLOW__API_AUTH__JWT_SECRET": _secret(home / "jwt-secret"),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        # The files do not change meanwhile; to read one takes seconds of CPU.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    }
    commands = {
        "api-server": ["airflow", "api-server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
        "scheduler": ["airflow", "scheduler", "--skip-serve-logs"],
        "dag-processor": ["airflow", "dag-processor"],
    }
    logs = home / "components"
    logs.mkdir(exist_ok=True)
    with ExitStack() as stack:
        processes = {}
        for name, command in commands.items():
            out = stack.enter_context((logs / f"{name}.log").open("w"))
            process = leash.spawn(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
            stack.callback(leash.end, process, STOP_SECONDS)
            processes[name] = process
        airflow = Airflow(url)
        _wait_until_ready(airflow, processes, logs)
        yield airflow


def _wait_until_ready(airflow: Airflow, processes: dict[str, subprocess.Popen[Any]], logs: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not airflow.ready():
        for name, process in processes.items():
            if process.poll() is not None:
                raise RuntimeError(
                    f"Airflow's {name} ended with code {process.returncode}: see {logs / name}.log"
                )
        if time.monotonic() > until:
            raise RuntimeError(f"Airflow was not ready after {START_SECONDS} s: see {logs}")
        time.sleep(1)
    airflow.log_in()


def _secret(file: Path) -> str:
    """The secret in the file, made on first use; readable by its owner alone."""
    if not file.exists():
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(secrets.token_hex(32))
    return file.read_text()
