"""`make up`, `make down`, `make status`: Airflow with the DAGs on their schedule, on this machine, until `make down`.

A background process (`serve`) supervises the components: it restarts those that end or hang, and sends alerts. It holds the
lock of `TRACE_HOME`, and the components inherit it: after `kill -9` of `serve` the lock identifies the processes that are left.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from deploy import airflow_components, child_process, home_lock
from deploy.airflow_components import PASSWORDS, USER
from deploy.airflow_environment import fail_left_over_runs, prepare
from deploy.dashboards import service
from deploy.preflight import exit_if_wrong_lake
from deploy.service import START_SECONDS, Service
from deploy.supervisor import Component, Timeouts
from spark_jobs.alerts.sinks import sink
from spark_jobs.driver.client import Client
from spark_jobs.process.file_lock import Holder
from spark_jobs.process.home import keep_private
from spark_jobs.process.text_file import replace_text
from spark_jobs.settings import NO_CLUSTER, Settings, load_settings

UP = "make up"
DASHBOARDS = "dashboards"
DRIVER, CLEANUP = "driver", "cleanup"
# `serve` writes its state every second or two; without a write for this time it hangs.
HUNG_SECONDS = 60.0
# The size of the state file: it can be overwritten in place on a full disk.
STATE_BYTES = 16 * 1024
# Time for the components and then for their guard processes to end.
DOWN_SECONDS = Timeouts().stop + child_process.GRACE_SECONDS + 30
log = logging.getLogger(__name__)
_console = Console(highlight=False, soft_wrap=True)


def _say(line: str) -> None:
    _console.print(line, markup=False)


class State:
    """The state of `serve`, in a file below `$TRACE_HOME/airflow`.

    Attributes:
        home: Airflow's home.
        log: the log of `serve`.
    """

    def __init__(self, settings: Settings):
        self.home = settings.home / "airflow"
        self.log = self.home / "components" / "up.log"
        self._trace_home = settings.home
        self._file = self.home / "up.json"

    def user(self) -> Holder | None:
        """The command that uses `TRACE_HOME`; None if there is none."""
        return home_lock.user_of(self._trace_home)

    def supervisor(self) -> int | None:
        """The pid of the running `serve`; None if there is none."""
        user = self.user()
        return user.pid if user is not None and user.command == UP and user.is_alive else None

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state; on a full disk overwrite the file in place.

        Raises:
            OSError: neither was possible.
        """
        text = json.dumps(state | {"at": time.time()}).ljust(STATE_BYTES)
        try:
            replace_text(self._file, text)
        except OSError:
            with self._file.open("r+") as file:
                file.write(text)

    def read(self) -> dict[str, Any]:
        """The last state of the running `serve`; empty if none runs, or it has not written it yet."""
        try:
            status = json.loads(self._file.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        pid = self.supervisor()
        return status if pid is not None and status.get("serve") == pid else {}

    def silent_seconds(self) -> float:
        """The age of the state by the system clock; 0 if there is none."""
        return max(0.0, time.time() - self.read().get("at", time.time()))


def serve(settings: Settings, port: int, dashboards: int | None) -> None:
    """Run the components until SIGTERM.

    Args:
        settings: the lake.
        port: of Airflow's web server.
        dashboards: port of Superset, which runs as a further component; None: it does not run.

    Raises:
        HomeInUseError: another command uses `TRACE_HOME`.
        RuntimeError: the port is taken, or Airflow did not become ready; the message names the logs.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    state = State(settings)
    with home_lock.used_by(UP, settings.home, log.warning) as lock:
        for line in sink.missing(settings.alerts):
            log.warning("%s", line)
        environment = prepare(settings)
        fail_left_over_runs(environment)
        url, environment, components = airflow_components.components(environment, port)
        health: dict[str, Callable[[], bool | None]] = {}
        more: dict[str, Any] = {}
        # Executors of a cluster would be held between the jobs; and a query's event names the task of its driver.
        if settings.driver.enabled and settings.spark.is_local and not settings.lineage.url:
            components.append(
                Component(DRIVER, (sys.executable, "-m", "spark_jobs.driver.serve"), ends_on_purpose=True)
            )
            health[DRIVER] = lambda: Client(settings.home).answers()
            if settings.schedules.marts_with_ingest is None:
                environment |= {"TRACE_SCHEDULES__MARTS_WITH_INGEST": "true"}
        components.append(Component(CLEANUP, (sys.executable, "-m", "deploy.airflow_cleanup", "--daily")))
        health[CLEANUP] = lambda: True  # it sleeps most of the day, and ends if it fails
        if dashboards:
            command = (sys.executable, "-m", "deploy.dashboards.service", "--wait", "--port", str(dashboards))
            components.append(Component(DASHBOARDS, command))
            health[DASHBOARDS] = partial(service.answers, settings, dashboards)
            more = {"dashboards": service.url_of(dashboards)}
        with Service(
            *(settings, url, environment, components, health, Timeouts(), lock.fileno()),
            write_state=lambda of: state.write(of | more),
        ) as running:
            signal.signal(signal.SIGUSR1, lambda *_: running.supervisor.restart_now())
            running.run()


def up(settings: Settings, port: int, dashboards: int | None) -> int:
    """Start `serve` and wait until all components are healthy, or restart those that are not; return an exit code.

    Raises:
        SystemExit: the lake is not the one of the settings.
    """
    exit_if_wrong_lake(settings)
    state = State(settings)
    if state.supervisor() is not None:
        if state.silent_seconds() < HUNG_SECONDS:
            if dashboards and DASHBOARDS not in state.read().get("components", {DASHBOARDS: {}}):
                _say(
                    "already up without the dashboards: `make down` and `make up DASHBOARDS=1` start them too"
                )
                return 1
            return _restart_unhealthy(state)
        pid = state.supervisor()
        _say(
            f"the supervisor (pid {pid}) has not written its state for {state.silent_seconds():.0f} s: killing it"
        )
        os.kill(pid, signal.SIGKILL)  # type: ignore[arg-type]
        _wait_for_end(state, pid)
    elif (user := state.user()) is not None and user.is_alive:
        _say(home_lock.in_use(user, settings.home))
        return 1
    if not settings.clusters:
        _say(f"{NO_CLUSTER} (README, Your own cluster)")
        return 2
    home_lock.end_left_over(settings.home, _say)
    for line in sink.missing(settings.alerts):
        _say(f"warning: {line}")
    state.log.parent.mkdir(parents=True, exist_ok=True)
    _say(f"starting Airflow on 127.0.0.1:{port}; the first start takes 1 to 2 minutes (log: {state.log})")
    with state.log.open("a") as out:
        log_size = out.tell()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "deploy.up", "serve", "--port", str(port)),
                *(("--dashboards", "--dashboards-port", str(dashboards)) if dashboards else ()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while not state.read().get("ready"):
            if process.poll() is not None:
                lines = state.log.read_bytes()[log_size:].decode(errors="replace").splitlines()[-20:]
                _console.print(*lines, sep="\n", markup=False)
                _say(f"Airflow did not start: see {state.log.parent}")
                return 1
            time.sleep(0.5)
    except KeyboardInterrupt:
        _say("stopping the components")
        child_process.end(process, DOWN_SECONDS)
        home_lock.end_left_over(settings.home, _say)
        _say("stopped: no process of `make up` runs")
        return 130
    _say(f"up: {state.read()['url']}")
    _say(f"log in as {USER} with the password in {state.home / PASSWORDS}")
    if dashboards:
        superset = service.Superset(settings)
        _say(f"dashboards: {service.url_of(dashboards)}, after the first publication of the marts")
        _say(f"log in as {service.ADMIN} with the password in {superset.password_file}")
    _say(f"logs: {state.log.parent} of the components, {state.home / 'logs'} of the tasks")
    return 0


def _restart_unhealthy(state: State) -> int:
    """Make the supervisor restart unhealthy components now, and wait until they are healthy; return an exit code."""
    status = state.read()
    if not status.get("ready"):
        _say(f"already starting; see `make status`, `make down` (log: {state.log})")
        return 0
    wrong = _unhealthy(status)
    if not wrong:
        _say(f"already up: {status['url']}; see `make status`, `make down`")
        return 0
    for name, component in wrong.items():
        _say(f"{name}: {component['state']} (its last process: {component['last_end']}); restarting it")
    os.kill(status["serve"], signal.SIGUSR1)
    until = time.monotonic() + START_SECONDS
    while (wrong := _unhealthy(state.read())) and time.monotonic() < until:
        time.sleep(0.5)
    if wrong or not state.read():
        _say(f"{', '.join(wrong)} did not start: read the log in {state.log.parent}")
        return 1
    _say(f"up again: {status['url']}")
    return 0


def _unhealthy(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: of for name, of in state.get("components", {}).items() if of["state"] != "healthy"}


def down(settings: Settings) -> int:
    """Stop `serve` and all that it started; return an exit code."""
    state = State(settings)
    user = state.user()
    if user is None or user.command != UP:
        _say("not up" + (f"; {user} is using {settings.home}" if user is not None else ""))
        return 0
    pid = state.supervisor()
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        _wait_for_end(state, pid)
        if state.supervisor() == pid:
            os.kill(pid, signal.SIGKILL)  # the guard processes end the components
            _wait_for_end(state, pid)
    home_lock.end_left_over(settings.home, _say)
    if (user := state.user()) is not None:
        _say(f"processes of {user} do not end: `fuser -v {home_lock.lock_file(settings.home)}` shows them")
        return 1
    _say("down")
    return 0


def _wait_for_end(state: State, pid: int | None) -> None:
    until = time.monotonic() + DOWN_SECONDS
    while state.supervisor() == pid and time.monotonic() < until:
        time.sleep(0.2)


def status(settings: Settings) -> int:
    """Show the components; return 0 if all is healthy, 1 if something is not, 3 if nothing runs."""
    state = State(settings)
    if state.supervisor() is None:
        user = state.user()
        left = f"; processes of {user} still run" if user is not None and user.command == UP else ""
        _say(f"not up{left}; `make up` starts it")
        return 3
    status = state.read()
    if not status:
        _say(f"starting (log: {state.log})")
        return 1
    table = Table("component", "process", "state", "restarts", "last end")
    for name, of in status["components"].items():
        table.add_row(name, str(of["pid"] or "-"), of["state"], str(of["restarts"]), of["last_end"] or "-")
    _say(f"Airflow at {status['url']}; logs: {state.log.parent}")
    if "dashboards" in status:
        _say(f"dashboards at {status['dashboards']}")
    _console.print(table)
    _say(f"the watchdog last ran {status['watchdog_seconds'] / 60:.1f} minutes ago")
    for alert in status["alerts"]:
        _say(f"alert: {alert}")
    if (seconds := state.silent_seconds()) > HUNG_SECONDS:
        _say(f"this state is {seconds:.0f} s old: the supervisor hangs; `make up` replaces it")
        return 1
    if wrong := _unhealthy(status):
        _say(f"{', '.join(wrong)}: read the log; `make up` restarts it now")
    elif not status["ready"]:
        _say(f"starting: the DAGs are being parsed (log: {state.log})")
    return 1 if wrong or status["alerts"] or not status["ready"] else 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status", "serve"])
    parser.add_argument("--port", type=int, default=8080, help="of Airflow's web server, on loopback")
    parser.add_argument("--dashboards", action="store_true", help="run Superset too")
    parser.add_argument("--dashboards-port", type=int, default=8088, help="of Superset, on loopback")
    args = parser.parse_args(argv)
    dashboards = args.dashboards_port if args.dashboards else None
    settings = load_settings()
    keep_private(settings.home)
    match args.command:
        case "up":
            return up(settings, args.port, dashboards)
        case "down":
            return down(settings)
        case "status":
            return status(settings)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.raiseExceptions = False  # a log that cannot be written is no reason to end
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        serve(settings, args.port, dashboards)
    except (RuntimeError, OSError) as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
