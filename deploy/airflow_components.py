"""A whole Airflow on loopback: its components (api-server, scheduler, dag-processor, triggerer), health and REST API."""

from __future__ import annotations

import json
import math
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed

from deploy.secret_file import secret
from deploy.supervisor import Component

USER = "admin"
PASSWORDS = "passwords.json"  # below Airflow's home
# Maximum age of a heartbeat, seconds; Airflow's own thresholds are the same.
BEAT_SECONDS = 30
SCHEDULER = (sys.executable, "-m", "deploy.airflow_command", "scheduler")
TASKS = {
    # A running task retries its requests for minutes while the api-server restarts.
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "10",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "30",
    # Its callbacks run after it has succeeded. Airflow ends them after 20 s, which a busy machine exceeds: the alert of an
    # earlier failure would stay open.
    "AIRFLOW__CORE__TASK_SUCCESS_OVERTIME": "300",
    # The tasks of a killed scheduler end with it. Airflow looks for them, and runs them again, by default every 300 s.
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
}


class Airflow:
    """The REST API of a running Airflow. Its methods raise `httpx.HTTPError`."""

    def __init__(self, url: str, timeout: float = 30):
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=timeout)

    def monitor(self) -> dict[str, dict[str, str | None]] | None:
        """Status and last heartbeat of each component, as the api-server reports them; None if it does not answer."""
        try:
            return self.call("GET", "/api/v2/monitor/health")
        except (httpx.HTTPError, ValueError):
            return None

    def log_in(self, password: str) -> None:
        """Get a token as `USER`, and send it with all later requests."""
        token = self.call("POST", "/auth/token", json={"username": USER, "password": password})
        self.client.headers["Authorization"] = f"Bearer {token['access_token']}"

    def dags_parsed_since(self, time: datetime) -> set[str]:
        """The DAGs that a dag-processor has parsed after a time."""
        dags = self.call("GET", "/api/v2/dags")["dags"]
        return {
            dag["dag_id"]
            for dag in dags
            if (parsed := dag["last_parsed_time"]) and datetime.fromisoformat(parsed) > time
        }

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG, and have its file parsed again: Airflow starts the watchers of assets when it parses an unpaused DAG."""
        dag = self.call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})
        asked = self.client.put(f"/api/v2/parseDagFile/{dag['file_token']}")
        if asked.status_code != httpx.codes.CONFLICT:  # it was asked to before
            asked.raise_for_status()

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """Send a request; return the decoded JSON of the response.

        Airflow answers with an error of the server (5xx) if its database is locked. A request that may be repeated is.
        """
        retrying = Retrying(
            retry=retry_if_exception(_is_server_error),
            stop=stop_after_attempt(1 if method == "POST" else 3),
            wait=wait_fixed(1),
            reraise=True,
        )
        return retrying(lambda: self.client.request(method, path, **arguments).raise_for_status().json())


def _is_server_error(error: BaseException) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and error.response.is_server_error


class Heartbeats:
    """Which components answer, by their status in the api-server and by new heartbeats.

    Either alone is wrong after a clock jump: the status compares a heartbeat with the clock, and the newest heartbeat may belong
    to a dead process and be in the future.
    """

    def __init__(self, airflow: Airflow):
        self._airflow = airflow
        self._last: dict[str, tuple[str | None, float]] = {}
        self._previous: dict[str, str | None] = {}
        self._answered = -math.inf

    def restarted(self, component: str) -> None:
        """A new process of the component was started: only later heartbeats and answers count."""
        if component == "api-server":
            self._answered = -math.inf
        self._previous[component] = self._last.get(component, (None, 0.0))[0]

    def health(self) -> dict[str, bool | None]:
        """Per component; None if unknown, as the api-server or the database does not answer."""
        answer = self._airflow.monitor()
        if answer is not None:
            self._answered = time.monotonic()
        # One late answer is no failure: the machine may be busy.
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
        is_own = beat != self._previous.get(name)
        return is_own and (is_healthy or now - self._last[name][1] < BEAT_SECONDS)


def components(environment: Mapping[str, str], port: int) -> tuple[str, dict[str, str], list[Component]]:
    """The URL of the api-server, the environment of all components, and the components in their start order.

    The others start when the api-server answers, as a task fails that cannot reach it.

    Args:
        environment: as `airflow_environment.prepare` returns it.
        port: of the api-server, on loopback.

    Raises:
        RuntimeError: the port is taken.
    """
    home = Path(environment["AIRFLOW_HOME"])
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise RuntimeError(
            f"port {port} of 127.0.0.1 cannot be used: {error}. Use another one: PORT=…"
        ) from None
    url = f"http://127.0.0.1:{port}"
    password_of(home)
    complete = dict(environment) | {
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",  # one process each, started at once
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / PASSWORDS),
        # A user who can log in here can do everything else as well.
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": secret(home / "api-secret", secrets.token_hex(32)),
        "AIRFLOW__API_AUTH__JWT_SECRET": secret(home / "jwt-secret", secrets.token_hex(32)),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        # A file that has changed is parsed at once; parsing one takes seconds of CPU.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        **TASKS,
    }
    api_server = ("--host", "127.0.0.1", "--port", str(port), "--workers", "1")
    return (
        url,
        complete,
        [
            Component("api-server", ("airflow", "api-server", *api_server)),
            Component("scheduler", (*SCHEDULER, "--skip-serve-logs"), ("api-server",)),
            Component("dag-processor", ("airflow", "dag-processor"), ("api-server",)),
            Component("triggerer", ("airflow", "triggerer", "--skip-serve-logs"), ("api-server",)),
        ],
    )


def password_of(home: Path) -> str:
    """The password of `USER`; `home` is Airflow's."""
    generated = json.dumps({USER: secrets.token_urlsafe(16)})
    return json.loads(secret(home / PASSWORDS, generated))[USER]
