"""A whole Airflow on loopback: api-server, scheduler, dag-processor and triggerer as children of this process."""

from __future__ import annotations

import json
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
from sandbox.secret_file import secret

START_SECONDS = 180
STOP_SECONDS = 10
USER = "admin"
PASSWORDS = "passwords.json"  # below Airflow's home
HEALTHY_PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")


class Airflow:
    """The REST API of a running Airflow, as far as a look at DAG runs needs it."""

    def __init__(self, url: str):
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=30)

    def health(self) -> dict[str, str]:
        """Status by component: healthy, unhealthy, or `no answer` of all where the api-server gives none."""
        try:
            answer = self._client.get("/api/v2/monitor/health").raise_for_status().json()
        except httpx.HTTPError:
            return {"api-server": "no answer", **dict.fromkeys(HEALTHY_PARTS, "no answer")}
        return {"api-server": "healthy"} | {
            part: answer[part]["status"] or "absent" for part in HEALTHY_PARTS
        }

    def ready(self) -> bool:
        """All components say that they are healthy."""
        return set(self.health().values()) == {"healthy"}

    def log_in(self, password: str) -> None:
        """Ask for a token as `USER`; what follows is asked with it."""
        who = {"username": USER, "password": password}
        token = self._client.post("/auth/token", json=who).raise_for_status().json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def dags(self) -> set[str]:
        return {dag["dag_id"] for dag in self.call("GET", "/api/v2/dags")["dags"]}

    def unpause(self, dag_id: str) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def trigger(self, dag_id: str, **params: Any) -> str:
        """Start a run with params of the DAG; returns its id."""
        asked = {"logical_date": None, "conf": params}
        return self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=asked)["dag_run_id"]

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        found = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
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

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """The JSON that the API answers with; raises httpx.HTTPStatusError."""
        return self._client.request(method, path, **arguments).raise_for_status().json()

    def page(self, path: str) -> httpx.Response:
        """Any page of the server, whatever its status."""
        return self._client.get(path)


@contextmanager
def running(
    environment: dict[str, str], port: int | None = None
) -> Iterator[tuple[Airflow, dict[str, subprocess.Popen[Any]]]]:
    """Start the components, wait until they are healthy, end them; gives the API, logged in, and the processes.

    Args:
        environment: as `pipeline.prepare` returns it.
        port: of the api-server, on loopback; None: any that is free.

    Raises:
        RuntimeError: the port is taken, a component ended, or did not get ready; the message names the logs.
    """
    home = Path(environment["AIRFLOW_HOME"])
    url = f"http://127.0.0.1:{_free(port)}"
    environment = environment | {
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",  # a process each, started at once
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / PASSWORDS),
        # Whoever may log in here may do all else as well.
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": secret(home / "api-secret", secrets.token_hex(32)),
        "AIRFLOW__API_AUTH__JWT_SECRET": secret(home / "jwt-secret", secrets.token_hex(32)),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        # The files do not change meanwhile; to read one takes seconds of CPU.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    }
    commands = {
        "api-server": ["--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--workers", "1"],
        "scheduler": ["--skip-serve-logs"],
        "dag-processor": [],
        "triggerer": ["--skip-serve-logs"],
    }
    password = password_of(home)
    logs = home / "components"
    logs.mkdir(exist_ok=True)
    with ExitStack() as stack:
        processes: dict[str, subprocess.Popen[Any]] = {}
        for name, options in commands.items():
            out = stack.enter_context((logs / f"{name}.log").open("w"))
            command = ["airflow", name, *options]
            processes[name] = leash.spawn(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
            stack.callback(leash.end, processes[name], STOP_SECONDS)
        stack.callback(_terminate, processes)  # all at once, then one after the other is waited for
        airflow = Airflow(url)
        _wait_until_ready(airflow, processes, logs)
        airflow.log_in(password)
        yield airflow, processes


def password_of(home: Path) -> str:
    """The password of `USER`; `home` is Airflow's."""
    made = json.dumps({USER: secrets.token_urlsafe(16)})
    return json.loads(secret(home / PASSWORDS, made))[USER]


def _free(port: int | None) -> int:
    """The port, if nothing listens on it; None: one that is free."""
    try:
        with socket.create_server(("127.0.0.1", port or 0)) as found:
            return found.getsockname()[1]
    except OSError as error:
        raise RuntimeError(
            f"port {port} of 127.0.0.1 cannot be used: {error}. Take another: PORT=…"
        ) from None


def _terminate(processes: dict[str, subprocess.Popen[Any]]) -> None:
    for process in processes.values():
        if process.poll() is None:
            process.terminate()


def _wait_until_ready(airflow: Airflow, processes: dict[str, subprocess.Popen[Any]], logs: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not airflow.ready():
        for name, process in processes.items():
            if process.poll() is not None:
                raise RuntimeError(
                    f"Airflow's {name} ended with code {process.returncode}: see {logs / name}.log"
                )
        if time.monotonic() > until:
            raise RuntimeError(
                f"Airflow was not ready after {START_SECONDS} s: {airflow.health()}; see {logs}"
            )
        time.sleep(1)
