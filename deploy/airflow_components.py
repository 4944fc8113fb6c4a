"""A whole Airflow on loopback: its components (api-server, scheduler, dag-processor, triggerer), health and REST API."""

from __future__ import annotations

import json
import math
import secrets
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from deploy.secret_file import secret
from deploy.supervisor import Component

USER = "admin"
PASSWORDS = "passwords.json"  # below Airflow's home
HEALTHY_PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
# A component has written a heartbeat in this time, seconds; Airflow's own thresholds are the same.
BEAT_SECONDS = 30
# A task that runs while the api-server is restarted asks it again for minutes before it fails.
OUTLAST_THE_API_SERVER = {
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "10",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "30",
}


class Airflow:
    """The REST API of a running Airflow, as far as a look at DAG runs needs it."""

    def __init__(self, url: str, timeout: float = 30):
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=timeout)

    def monitor(self) -> dict[str, dict[str, str | None]] | None:
        """What the api-server says of each part: `status`, and its last heartbeat; None: it does not answer."""
        try:
            return self._client.get("/api/v2/monitor/health").raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return None

    def health(self) -> dict[str, str]:
        """Status by component: healthy, unhealthy, or `no answer` of all where the api-server gives none."""
        if (answer := self.monitor()) is None:
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


class Heartbeats:
    """Which components answer, by what the api-server says of them and by whether their heartbeats go on.

    Both, as either alone is wrong when the clock jumps: the status compares a heartbeat with the clock, and the newest
    heartbeat may belong to a dead process and have a time in the future.
    """

    def __init__(self, airflow: Airflow):
        self._airflow = airflow
        self._last: dict[str, tuple[str | None, float]] = {}
        self._of_predecessor: dict[str, str | None] = {}
        self._answered = -math.inf

    def restarted(self, component: str) -> None:
        """A process of the component was just started: only a new heartbeat, or answer, is its own."""
        if component == "api-server":
            self._answered = -math.inf
        self._of_predecessor[component] = self._last.get(component, (None, 0.0))[0]

    def health(self) -> dict[str, bool | None]:
        """By component; None: nobody can say, as the api-server or the database does not answer."""
        answer = self._airflow.monitor()
        if answer is not None:
            self._answered = time.monotonic()
        # A single answer that is late says nothing: the machine may be busy.
        is_late = time.monotonic() - self._answered < BEAT_SECONDS
        found: dict[str, bool | None] = {"api-server": True if answer else None if is_late else False}
        for name in ("scheduler", "dag-processor", "triggerer"):
            part = name.replace("-", "_")
            if answer is None or answer["metadatabase"]["status"] != "healthy":
                found[name] = None
                continue
            beat = answer[part].get(f"latest_{part}_heartbeat")
            found[name] = self._answers(name, answer[part]["status"] == "healthy", beat)
        return found

    def _answers(self, name: str, is_healthy: bool, beat: str | None) -> bool | None:
        now = time.monotonic()
        if self._last.get(name, (None, 0.0))[0] != beat:
            self._last[name] = beat, now
        if beat is None:
            return False
        if datetime.fromisoformat(beat) > datetime.now(UTC) + timedelta(seconds=BEAT_SECONDS):
            return None
        is_own = beat != self._of_predecessor.get(name)
        return is_own and (is_healthy or now - self._last[name][1] < BEAT_SECONDS)


def components(
    environment: Mapping[str, str], port: int | None = None
) -> tuple[str, dict[str, str], list[Component]]:
    """The api-server's address, the environment of all components, and these in the order of their start.

    Each of the others starts when the api-server answers: a task that asks it in vain fails.

    Args:
        environment: as `airflow_environment.prepare` returns it.
        port: of the api-server, on loopback; None: any that is free.

    Raises:
        RuntimeError: the port is taken.
    """
    home = Path(environment["AIRFLOW_HOME"])
    url = f"http://127.0.0.1:{_free(port)}"
    password_of(home)
    complete = dict(environment) | {
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
        **OUTLAST_THE_API_SERVER,
    }
    api_server = ("--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--workers", "1")
    return (
        url,
        complete,
        [
            Component("api-server", ("airflow", "api-server", *api_server)),
            Component("scheduler", ("airflow", "scheduler", "--skip-serve-logs"), ("api-server",)),
            Component("dag-processor", ("airflow", "dag-processor"), ("api-server",)),
            Component("triggerer", ("airflow", "triggerer", "--skip-serve-logs"), ("api-server",)),
        ],
    )


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
