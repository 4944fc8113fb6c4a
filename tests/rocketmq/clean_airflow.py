"""Airflow and the wheel of the provider alone: an environment of its own, with a scheduler, triggerers and a database."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from deploy.airflow_components import components
from deploy.child_process import end, spawn
from spark_jobs.settings import PROJECT

UV = shutil.which("uv") or str(PROJECT / ".tools" / "uv" / "bin" / "uv")


def install(folder: Path) -> Path:
    """Build the wheel, and install it and Airflow into a new environment; return the environment's folder."""
    built = subprocess.run(
        ["make", "-s", "provider", f"TRACE_HOME={folder}"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (folder / "provider").glob("*.whl")
    environment = folder / "venv"
    airflow = f"apache-airflow=={version('apache-airflow')}"
    uv = {**os.environ, "UV_SYSTEM_CERTS": "true"}
    for command in (
        ["venv", "-q", "--python", sys.executable, str(environment)],
        # The versions of the lock: they are in uv's cache.
        ["pip", "install", "-q", "--python", str(environment / "bin" / "python")]
        + ["--constraint", str(PROJECT / "requirements.lock"), airflow, str(wheel)],
    ):
        done = subprocess.run([UV, *command], env=uv, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return environment


@dataclass
class CleanAirflow:
    """Airflow in that environment; nothing of this repository is on its path."""

    venv: Path
    home: Path
    variables: Mapping[str, str]
    processes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.home / "dags").mkdir(parents=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW", "PYTHON", "TRACE"))
        }
        self.environment = {
            **kept,
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            **self.variables,
        }

    def output(self, *command: str) -> str:
        """What a command of the environment prints; it must succeed."""
        done = subprocess.run(
            [str(self.venv / "bin" / command[0]), *command[1:]],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def python(self, code: str) -> Any:
        """The JSON that some Python prints last."""
        return json.loads(self.output("python", "-c", code).splitlines()[-1])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Airflow's components run, with two triggerers."""
        self.output("airflow", "db", "migrate")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        _, self.environment, found = components(self.environment, port)
        self._commands = {each.name: each.command for each in found}
        # That of `make up` needs this repository.
        self._commands["scheduler"] = ("airflow", "scheduler", "--skip-serve-logs")
        self._commands["triggerer-2"] = self._commands["triggerer"]
        try:
            for name in self._commands:
                self.start(name)
            yield
        finally:
            for process in self.processes.values():
                process.terminate()
            for process in self.processes.values():
                end(process, 20)

    def start(self, name: str) -> None:
        """Start a component, with its output in a file."""
        command, *arguments = self._commands[name]
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = spawn(
                [str(self.venv / "bin" / command), *arguments],
                env=self.environment,
                cwd=self.home,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, *names: str) -> None:
        """SIGKILL components."""
        for name in names:
            process = self.processes.pop(name)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of Airflow's database."""
        with closing(
            sqlite3.connect(f"file:{self.home / 'airflow.db'}?mode=ro", uri=True, timeout=30)
        ) as database:
            return database.execute(query).fetchall()

    def wait(self, what: Callable[[], bool], seconds: float = 240) -> None:
        """Wait until something is so; raises AssertionError with the ends of the logs, at once if a component has ended."""
        end = time.monotonic() + seconds
        while not what():
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                logs = {file.name: file.read_text()[-1500:] for file in self.home.glob("*.log")}
                raise AssertionError(f"ended: {ended}; {logs}")
            time.sleep(0.5)
