"""The background process of `make up`: Airflow's components under a supervisor, their alerts, logs and state."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import httpx

from deploy import child_process
from deploy.airflow_components import Airflow, Heartbeats, password_of
from deploy.dashboards.service import Superset
from deploy.installation_alerts import InstallationAlerts
from deploy.supervisor import Component, Supervisor, Timeouts
from spark_jobs.checks.check import Measured
from spark_jobs.settings import PROJECT, Settings

log = logging.getLogger(__name__)

# Timeouts for the start of the components, and for the first parsing of all DAG files after that.
START_SECONDS = 240.0
PARSE_SECONDS = 120.0
STEP_SECONDS = 1.0
# Between two questions whether the components answer, while all of them do.
HEALTH_SECONDS = 5.0
# A log of this size is rotated; so many rotated files of each log are kept.
LOG_BYTES = 10_000_000
LOG_BACKUPS = 5
ROTATE_SECONDS = 60.0


class Service:
    """Supervises the components until the process is stopped. It logs errors and continues.

    Args:
        settings: sinks, limits of the alerts, `TRACE_HOME`.
        url: of the api-server.
        environment: of the components.
        components: in the order of their start.
        health: whether components that are not Airflow's answer, by name; None: unknown.
        timeouts: of the supervisor.
        lock: descriptor of an open file that the components inherit.
        write_state: saves the state; raises OSError.

    Attributes:
        supervisor: of the components.
    """

    def __init__(
        self,
        settings: Settings,
        url: str,
        environment: dict[str, str],
        components: Sequence[Component],
        health: Mapping[str, Callable[[], bool | None]],
        timeouts: Timeouts,
        lock: int,
        write_state: Callable[[dict[str, Any]], None],
    ):
        self._url, self._environment, self._lock, self._write_state = url, environment, lock, write_state
        self._logs = settings.home / "airflow" / "components"
        self._rotated = (self._logs, Superset(settings).home)
        self._heartbeats = Heartbeats(Airflow(url, timeout=5))
        self._health = health
        self._answered: dict[str, bool | None] = {}
        self._next_question = 0.0
        self.supervisor = Supervisor(components, self._start, self._answers, timeouts)
        self._alerts = InstallationAlerts(settings, time.monotonic())
        self._dags = Dags(url, settings.home / "airflow")
        self._is_ready = False
        self._is_state_written = True
        self._next_rotation = 0.0

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.supervisor.end()
        self._alerts.end()

    def run(self) -> None:
        """Supervise until the process is stopped.

        Raises:
            RuntimeError: Airflow did not become ready.
        """
        started = time.monotonic()
        while True:
            try:
                self._step(time.monotonic())
            except Exception:  # of any kind: the components need their supervisor
                log.exception("the supervisor continues after an error")
            if not self._is_ready:
                self._give_up_after(time.monotonic() - started)
            time.sleep(STEP_SECONDS)

    def _step(self, now: float) -> None:
        supervisor = self.supervisor
        self._rotate_logs(now)
        supervisor.step(now)
        if not self._is_ready and supervisor.is_ready and self._dags.unpaused():
            self._is_ready = True
            self._alerts.start_watchdog_timer(now)
            log.info("ready: all components answer, and the DAGs are unpaused")
        faults = [
            Measured(
                each.name,
                max(1, each.failures),
                f"{each.describe(now)}; {each.last_end or 'it does not answer'}; log: {self._log_of(each.component)}",
            )
            for each in supervisor.states.values()
            if each.is_faulty
        ]
        self._alerts.step(now, list(supervisor.states), faults, supervisor.is_ready)
        self._publish(now)

    def _answers(self) -> dict[str, bool | None]:
        """Which components answer: asked in each step until all do, then every `HEALTH_SECONDS`."""
        now = time.monotonic()
        if now >= self._next_question:
            self._answered = self._heartbeats.health()
            self._answered |= {name: answers() for name, answers in self._health.items()}
            if all(self._answered.get(name) for name in self.supervisor.states):
                self._next_question = now + HEALTH_SECONDS
        return self._answered

    def _publish(self, now: float) -> None:
        state = {
            "serve": os.getpid(),
            "url": self._url,
            "ready": self._is_ready,
            "components": {
                each.name: {
                    "pid": each.pid if each.process is not None else None,
                    "state": each.describe(now),
                    "restarts": each.restarts,
                    "last_end": each.last_end,
                }
                for each in self.supervisor.states.values()
            },
            "watchdog_seconds": self._alerts.watchdog_age(now),
            "alerts": [f"{alert.identity}: {alert.description}" for alert in self._alerts.open],
        }
        try:
            self._write_state(state)
            self._is_state_written = True
        except OSError as error:
            if self._is_state_written:
                log.error("the state could not be written: %s", error)
            self._is_state_written = False

    def _give_up_after(self, seconds: float) -> None:
        for each in self.supervisor.states.values():
            if each.is_faulty:
                log_of_it = self._log_of(each.component)
                raise RuntimeError(
                    f"Airflow's {each.name} {each.last_end or 'does not answer'}: see {log_of_it}"
                )
        if seconds > START_SECONDS + PARSE_SECONDS:
            raise RuntimeError(
                f"Airflow was not ready after {seconds:.0f} s: {self._dags.missing()}see {self._logs}"
            )

    def _start(self, component: Component) -> subprocess.Popen[Any]:
        self._heartbeats.restarted(component.name)
        self._next_question = 0.0  # the last answer was of another process
        with self._log_of(component).open("a") as out:
            return child_process.spawn(
                component.command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=(self._lock,),
            )

    def _rotate_logs(self, now: float) -> None:
        if now < self._next_rotation:
            return
        self._next_rotation = now + ROTATE_SECONDS
        for file in [file for folder in self._rotated for file in folder.glob("*.log")]:
            try:
                rotate(file)
            except OSError as error:
                log.error("%s could not be rotated: %s", file, error)

    def _log_of(self, component: Component) -> Path:
        return self._logs / f"{component.name}.log"


def rotate(file: Path) -> None:
    """Copy a log of at least `LOG_BYTES` to `<name>.1` and truncate it; older copies become `.2`, `.3` and so on.

    The processes that write the log keep their open file, so it must be open for appending. What they write between the copy
    and the truncation is lost.

    Raises:
        OSError: the log could not be copied, as on a full disk; nothing was changed.
    """
    if file.stat().st_size < LOG_BYTES:
        return
    copies = [file.with_name(f"{file.name}.{n}") for n in range(1, LOG_BACKUPS + 1)]
    new = file.with_name(f"{file.name}.new")
    try:
        shutil.copyfile(file, new)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    for older, newer in zip(copies[::-1], [*copies[-2::-1], new], strict=True):
        if newer.exists():
            newer.rename(older)
    os.truncate(file, 0)


class Dags:
    """Unpauses all DAGs of the project, once all of them are parsed with the present settings.

    Until then Airflow's database may have them as `make run` or an earlier `make up` left them, with other schedules.
    """

    def __init__(self, url: str, home: Path):
        self._airflow = Airflow(url)
        self._password = password_of(home)
        self._expected = {file.stem for file in (PROJECT / "dags").glob("*.py")}
        self._found: set[str] = set()
        self._started = datetime.now(UTC)

    def unpaused(self) -> bool:
        """Unpause them; return false while a DAG is missing or the API does not answer."""
        try:
            self._airflow.log_in(self._password)
            self._found = self._airflow.dags_parsed_since(self._started)
            if not self._found >= self._expected:
                return False
            for dag_id in sorted(self._expected):
                self._airflow.unpause(dag_id)
        except httpx.HTTPError as error:
            log.warning("the DAGs cannot be unpaused yet: %s", type(error).__name__)
            return False
        return True

    def missing(self) -> str:
        """The DAGs that were not parsed, for a message; empty if there are none."""
        missing = sorted(self._expected - self._found)
        return f"DAGs that were not parsed: {', '.join(missing)}; " if missing else ""
