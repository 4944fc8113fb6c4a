"""`make demo` as a process, on a folder of its own, and the points at which something happens to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import OperationalError

from deploy import run_once
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import EVENTS
from spark_jobs.settings import PROJECT, Settings
from tests.planning import QUICK

SECONDS = 600


class Demo:
    """`make demo` as a process, on a folder."""

    def __init__(self, home: Path):
        self.home = home
        self.log = home.with_suffix(".log")
        out = self.log.open("a")
        self.begin = out.tell()
        environment = os.environ | {
            "TRACE_HOME": str(home),
            "PYTHONPATH": str(PROJECT),
            "TRACE_SPARK__CONF": json.dumps(QUICK),
        }
        environment.pop("TRACE_SETTINGS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sandbox.demo", "--messages", "100"],
            cwd=PROJECT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            # A shell that runs the tests in the background has Ctrl-C ignored, and so would the demo.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        out.close()

    @property
    def output(self) -> str:
        return self.log.read_bytes()[self.begin :].decode(errors="replace")

    def wait_for(self, reached: Callable[[], object]) -> None:
        until = time.monotonic() + SECONDS
        while not reached():
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.05)

    def wait_for_merge(self) -> int:
        """Wait until the job `ingest` merges; return its pid."""
        self.wait_for(lambda: merges(self.home))
        return jobs_of(self.home, "ingest")[0]

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 130, self.output
        assert self.output.splitlines()[-1] == run_once.STOPPED
        assert "Traceback" not in self.output
        assert_none_left(self.home)


def processes_of(home: Path) -> dict[int, str]:
    """The processes whose command or environment names the folder."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has just ended
        if int(entry.name) != os.getpid() and str(home) in command + environment:
            found[int(entry.name)] = command
    return found


def jobs_of(home: Path, job: str) -> list[int]:
    """The JVMs of a job, such as `ingest`, that run now."""
    return [
        pid
        for pid, command in processes_of(home).items()
        if "org.apache.spark.deploy.SparkSubmit" in command and f"{job}.py" in command
    ]


def merges(home: Path) -> bool:
    """Whether a merge writes to its branch of events now."""
    try:
        refs = lake(Settings(home=home)).load_table(EVENTS.name).refs()
    except (NoSuchTableError, OperationalError):  # before the first job has created the catalog's tables
        return False
    return any(name.startswith("merge_") for name in refs) and bool(jobs_of(home, "ingest"))


def data_files(home: Path) -> int:
    return len(list((home / "warehouse" / "raw" / "trace_messages" / "data").rglob("*.parquet")))


def assert_none_left(home: Path) -> None:
    until = time.monotonic() + 30
    while left := processes_of(home):
        assert time.monotonic() < until, left
        time.sleep(0.5)
