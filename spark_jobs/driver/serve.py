"""`python -m spark_jobs.driver.serve`: a Spark driver that runs one job after the other, until SIGTERM.

`make up` keeps one running. It listens on loopback; a request has a secret that is in a file below `TRACE_HOME`. While a job
runs, other requests get the answer `busy` and are repeated; after a minute their tasks start a driver of their own, as they do
without this one. It ends, and is started again, after a job that failed or was cancelled, after `driver.most_jobs` jobs, and if
code or Spark's properties have changed, as soon as no job runs.
"""

from __future__ import annotations

import hmac
import importlib
import json
import os
import queue
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spark_jobs.driver.client import Address
from spark_jobs.driver.output import Output
from spark_jobs.jobs.run import run_job
from spark_jobs.lake import deployment, tables
from spark_jobs.lake.session import session
from spark_jobs.process import jvm
from spark_jobs.process.home import keep_private
from spark_jobs.process.text_file import replace_text
from spark_jobs.settings import PROJECT, Settings

# Only these: they run in Airflow's tasks, and print their own progress.
JOBS = ("spark_jobs.jobs.ingest", "spark_jobs.jobs.marts")
REQUEST_SECONDS = 10.0


class Driver:
    """Accepts requests in a thread, and runs the jobs in the main thread, which gets the signals."""

    def __init__(self, settings: Settings):
        self._home, self._most_jobs = settings.home, settings.driver.most_jobs
        self._version = _version(settings)
        self._environment = dict(os.environ)
        self._key = secrets.token_hex(32)
        self._output = Output()
        self._running = threading.Lock()
        self._accepted: queue.Queue[tuple[socket.socket, dict[str, Any]]] = queue.Queue()
        self._listening = socket.create_server(("127.0.0.1", 0))

    def run(self) -> int:
        """Run jobs until one fails, or there were many; return an exit code."""
        address = Address(self._listening.getsockname()[1], self._key, os.getpid())
        replace_text(Address.file(self._home), json.dumps(asdict(address)))
        threading.Thread(target=self._accept, daemon=True).start()
        for left in reversed(range(self._most_jobs)):
            connection, request = self._accepted.get()
            with connection:
                code = self._job(connection, request)
            if code or (died := jvm.exit_code()) is not None:
                why = f"ended with {code}" if code else f"left a JVM that had ended with {died}"
                print(f"{request['job']} {why}: the driver ends, too", file=sys.stderr)
                return 0
            if left:  # while the driver ends it takes no other job
                self._running.release()
        return 0

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._receive, args=(connection,), daemon=True).start()
            except (OSError, RuntimeError) as error:  # no file descriptor, or no thread, is left
                print(f"a request cannot be accepted: {error}", file=sys.stderr)
                time.sleep(1)

    def _receive(self, connection: socket.socket) -> None:
        """Answer a request that is no job, or that is refused; hand the others over to the main thread."""
        connection.settimeout(REQUEST_SECONDS)
        try:
            with connection.makefile("r", encoding="utf-8") as lines:
                request = json.loads(lines.readline())
            if not hmac.compare_digest(str(request.get("key")), self._key):
                raise PermissionError("another key")
        except (OSError, ValueError, AttributeError):
            connection.close()
            return
        connection.settimeout(None)
        if "job" not in request:
            _send(connection, {"code": 0})
        elif why := self._refusal(request):
            _send(connection, {"refused": why})
        elif not self._running.acquire(blocking=False):
            _send(connection, {"busy": "another job runs in it"})
        elif why := self._change():
            _send(connection, {"refused": f"{why} since it was started; it starts again"})
            threading.Timer(1.0, _end, args=(why,)).start()
        else:
            self._accepted.put((connection, request))
            return
        connection.close()

    def _refusal(self, request: Mapping[str, Any]) -> str | None:
        if request["job"] not in JOBS:
            return f"{request['job']} is none of its jobs"
        given: Mapping[str, str] = request["environment"]
        other = [name for name, value in given.items() if self._environment.get(name) != value]
        if other:
            return f"{', '.join(sorted(other))} have other values in its environment"
        return None

    def _change(self) -> str | None:
        """What is no longer as it was when the driver was started."""
        try:
            now = _version(Settings())
        except (ValueError, OSError):  # the settings are wrong: the job's own process says how
            return "the settings have changed"
        return None if now == self._version else "the code or Spark's properties have changed"

    def _job(self, connection: socket.socket, request: Mapping[str, Any]) -> int:
        done = threading.Event()
        threading.Thread(target=_end_if_closed, args=(connection, done), daemon=True).start()
        _send(
            connection, {"line": f"{request['job']} runs in the driver of `make up`, process {os.getpid()}"}
        )
        self._output.to = lambda line: _send(connection, {"line": line})
        try:
            main: Callable[[list[str]], int] = importlib.import_module(request["job"]).main
            code = run_job(lambda: main(request["arguments"]))
        finally:
            self._output.flush()
            self._output.to = None
            done.set()
        _send(connection, {"code": code})
        return code


def _end_if_closed(connection: socket.socket, done: threading.Event) -> None:
    """The client closes its connection while the job runs: the task was ended, and the job must not go on."""
    with suppress(OSError):
        connection.recv(1)
    if not done.is_set():
        _end("the task of the job was ended")


def _end(why: str) -> None:
    with suppress(OSError):
        os.write(2, f"{why}: the driver ends\n".encode())
    jvm.kill()
    os._exit(1)


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(OSError):  # `_end_if_closed` ends the driver
        connection.sendall(json.dumps(answer).encode() + b"\n")


def _version(settings: Settings) -> tuple[object, ...]:
    """What a driver has from its start: Spark's properties, and the code."""
    files = tuple((str(file), file.stat().st_mtime_ns) for file in sorted(_code(PROJECT)))
    return deployment.submit_conf(settings), deployment.session_conf(settings), files


def _code(project: Path) -> list[Path]:
    return [*(project / "spark_jobs").rglob("*.py")]


def main() -> int:
    settings = Settings()
    keep_private(settings.home)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    driver = Driver(settings)
    spark = session("driver", settings)
    tables.ensure(spark)
    for job in JOBS:
        importlib.import_module(job)
    try:
        return driver.run()
    finally:
        Address.file(settings.home).unlink(missing_ok=True)
        jvm.stop()


if __name__ == "__main__":
    sys.exit(main())
