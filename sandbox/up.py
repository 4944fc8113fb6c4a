"""`make up`, `make down`, `make status`: Airflow with the DAGs on their schedule, on this machine, until told to stop.

A process in the background (`serve`) holds the components on leashes, so that all of them end with it, however it
ends, and a lock: whoever holds that is up. A file of pids alone could name a process that is long gone.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.table import Table

from sandbox import leash, pipeline, scheduler
from sandbox.scheduler import PASSWORDS, USER, Airflow
from spark_jobs.settings import PROJECT, Settings

PARSE_SECONDS = 120
# The components get STOP_SECONDS to end, their leashes GRACE_SECONDS; after that there is a fault.
DOWN_SECONDS = scheduler.STOP_SECONDS + leash.GRACE_SECONDS + 30
_console = Console(highlight=False, soft_wrap=True)


class State:
    """What `serve` says of itself, below `$TRACE_HOME/airflow`.

    Attributes:
        home: Airflow's home.
        log: what `serve` prints.
    """

    def __init__(self, settings: Settings):
        self.home = settings.home / "airflow"
        self.log = self.home / "components" / "up.log"
        self._lock = self.home / "up.lock"
        self._file = self.home / "up.json"

    def holder(self) -> int | None:
        """The pid of the `serve` that runs; None where none does."""
        if not self._lock.exists():
            return None
        with self._lock.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read() or 0) or None
        return None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; raises RuntimeError where another process does."""
        self.home.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(f"another process holds {self._lock}: is a `make up` under way?") from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def write(self, **said: Any) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(said))
        new.rename(self._file)

    def read(self) -> dict[str, Any]:
        """What was written last, maybe by a process that has ended; empty where nothing was."""
        try:
            return json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}

    def left_over(self) -> list[int]:
        """Processes of the components that were written last, and what these started."""
        return [pid for leader in self.read().get("pids", {}).values() for pid in leash.session_of(leader)]


def serve(settings: Settings, port: int) -> None:
    """Run the components until a signal comes; says in its log when one ends by itself."""
    state = State(settings)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with state.held():
        environment = pipeline.prepare(settings)
        with scheduler.running(environment, port) as (airflow, processes):
            _unpause(airflow)
            pids = {name: process.pid for name, process in processes.items()}
            ended: dict[str, int] = {}
            while True:
                state.write(serve=os.getpid(), url=airflow.url, pids=pids, ended=ended)
                time.sleep(2)
                for name in set(processes) - set(ended):
                    if (code := processes[name].poll()) is not None:
                        ended[name] = code
                        log = state.log.with_name(f"{name}.log")
                        print(f"Airflow's {name} ended with code {code}: see {log}", flush=True)


def _unpause(airflow: Airflow) -> None:
    """Wait until every DAG file is parsed, and start all their schedules."""
    expected = {file.stem for file in (PROJECT / "dags").glob("*.py")}
    until = time.monotonic() + PARSE_SECONDS
    while missing := expected - airflow.dags():
        if time.monotonic() > until:
            raise RuntimeError(f"DAGs were not parsed after {PARSE_SECONDS} s: {', '.join(sorted(missing))}")
        time.sleep(1)
    for dag_id in sorted(expected):
        airflow.unpause(dag_id)


def up(settings: Settings, port: int) -> int:
    """Start `serve` and wait until it is healthy; returns an exit code."""
    state = State(settings)
    if (pid := state.holder()) is not None:
        said = state.read()
        where = said["url"] if said.get("serve") == pid else "just starting"
        _console.print(f"up already: {where}; see `make status`, `make down`")
        return 0
    if not settings.clusters:
        _console.print(
            "no cluster is configured: name a settings file in TRACE_SETTINGS (README, Your own cluster)"
        )
        return 2
    state.log.parent.mkdir(parents=True, exist_ok=True)
    _wait_until_gone(state)
    _console.print(
        f"starting Airflow on 127.0.0.1:{port}; its first start takes a minute or two (log: {state.log})"
    )
    with state.log.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sandbox.up", "serve", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    while state.read().get("serve") != process.pid:
        if process.poll() is not None:
            _console.print(*state.log.read_text(errors="replace").splitlines()[-20:], sep="\n", markup=False)
            _console.print(f"Airflow did not start: see {state.log.parent}")
            return 1
        time.sleep(0.5)
    _console.print(f"up: {state.read()['url']}")
    _console.print(f"log in as {USER} with the password in {state.home / PASSWORDS}")
    _console.print(f"logs: {state.log.parent} of the components, {state.home / 'logs'} of the tasks")
    return 0


def down(settings: Settings) -> int:
    """End `serve` and with it all that it started; returns an exit code."""
    state = State(settings)
    pid = state.holder()
    if pid is None:
        _console.print("not up")
    else:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + DOWN_SECONDS
        while state.holder() == pid and time.monotonic() < until:
            time.sleep(0.2)
        if state.holder() == pid:
            os.kill(pid, signal.SIGKILL)  # the leashes end the components
    if left := _wait_until_gone(state):
        _console.print(f"processes {', '.join(map(str, left))} do not end: look at them, and kill them")
        return 1
    if pid is not None:
        _console.print("down")
    return 0


def status(settings: Settings) -> int:
    """Show what runs; returns 0 where all is well, 1 where a component is not, 3 where nothing runs."""
    state = State(settings)
    if state.holder() is None:
        _console.print("not up; `make up` starts it")
        return 3
    said = state.read()
    if said.get("serve") != state.holder():
        _console.print(f"starting (log: {state.log})")
        return 1
    health = Airflow(said["url"]).health()
    table = Table("component", "process", "says")
    wrong = []
    for name, pid in said["pids"].items():
        says = health.get(name) or health[name.replace("-", "_")]
        if name in said["ended"]:
            says = f"ended with code {said['ended'][name]}"
        table.add_row(name, str(pid), says)
        if says != "healthy":
            wrong.append(name)
    _console.print(f"Airflow at {said['url']}; logs: {state.log.parent}")
    _console.print(table)
    if wrong:
        _console.print(f"{', '.join(wrong)}: read the log, then `make down` and `make up`")
    return 1 if wrong else 0


def _wait_until_gone(state: State) -> list[int]:
    """Wait for what an earlier `serve` started; returns what does not end."""
    until = time.monotonic() + leash.GRACE_SECONDS + 10
    while (left := state.left_over()) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status", "serve"])
    parser.add_argument("--port", type=int, default=8080, help="of Airflow's web server, on loopback")
    args = parser.parse_args(argv)
    settings = Settings()
    match args.command:
        case "up":
            return up(settings, args.port)
        case "down":
            return down(settings)
        case "status":
            return status(settings)
    try:
        serve(settings, args.port)
    except RuntimeError as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
