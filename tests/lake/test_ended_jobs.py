"""A job that is ended with Ctrl-C, or whose JVM dies: its exit code, its last line, its processes, and the next run.

All runs are real jobs over one lake, which in the end holds everything once. The jobs that are ended are processes; those that
go on after them run in the session of the tests, and in `make soak` as processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.jobs import marts, merge
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.process.interrupts import STOPPED
from spark_jobs.serving import files
from spark_jobs.settings import PROJECT, Settings
from tests import lakes
from tests.planning import run_jobs_on
from tests.soak import IS_SOAK
from tests.spark.stored import messages, planned, write

MESSAGES = 3000 if IS_SOAK else 500
SECONDS = 400


@dataclass(frozen=True)
class Ended:
    """A job that has ended: its exit code, what it wrote, and the seconds since what happened to it."""

    code: int
    output: str
    seconds: float

    @property
    def last(self) -> str:
        return self.output.strip().splitlines()[-1]


@dataclass(frozen=True)
class Home:
    settings: Settings
    log: Path

    def start(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """A process that leads a group of its own, as a shell starts it."""
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                env=os.environ
                | {"PYTHONPATH": str(PROJECT), "TRACE_HOME": str(self.settings.home)}
                | {"TRACE_SPARK__CONF": json.dumps(self.settings.spark.conf)}
                | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, process: subprocess.Popen[bytes]) -> Ended:
        """Until it has ended. After Ctrl-C nothing that it started runs then; after others its JVM ends a moment later."""
        since = None
        until = time.monotonic() + SECONDS
        while process.poll() is None:
            if since is None and "reached" in self.log.read_text():
                since = time.monotonic()
            assert time.monotonic() < until, f"it does not end:\n{self.log.read_text()}"
            time.sleep(0.05)
        while (left := left_of(process.pid)) and process.returncode != 130:
            assert time.monotonic() < until, left
            time.sleep(0.1)
        assert left == [], self.log.read_text()
        return Ended(process.returncode, self.log.read_text(), time.monotonic() - since if since else 0.0)

    def run(self, *command: str, **environment: str) -> Ended:
        return self.wait(self.start(*command, **environment))

    def records(self) -> int:
        return lake(self.settings).load_table("events.trace_records").scan().to_arrow().num_rows


def left_of(leader: int) -> list[str]:
    """The processes of the session that have not ended, except Python's own helpers, which end with it.

    `ps` shows a process that has released its memory, and so is about to end, in brackets.
    """
    rows = subprocess.run(
        ["ps", "-eo", "sid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    parts = [row.split(None, 2) for row in rows.splitlines()]
    return [
        part[2]
        for part in parts
        if part[0] == str(leader)
        and not part[1].startswith("Z")
        and not part[2].startswith("[")
        and "multiprocessing" not in part[2]
    ]


@pytest.fixture(scope="module")
def home(spark: SparkSession, settings: Settings, tmp_path_factory) -> Iterator[Home]:
    """The lake of the session, with messages that no merge has read."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    write(spark, settings, messages(spark, 0, MESSAGES), planned(0, MESSAGES), "seed")
    yield Home(settings, tmp_path_factory.mktemp("ended") / "log")
    lakes.empty(spark, settings)
    files.remove_all(settings)


def assert_stopped(ended: Ended) -> None:
    assert ended.code == 130, ended.output
    assert "Traceback" not in ended.output, ended.output
    assert "\tat " not in ended.output, ended.output
    assert ended.last == STOPPED
    assert ended.seconds < 60


def test_interrupted_while_it_imports(home: Home):
    process = home.start("-m", "spark_jobs.jobs.merge")
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    ended = home.wait(process)
    assert ended.code == 130
    assert "Traceback" not in ended.output


def test_interrupted_while_the_jvm_starts(home: Home):
    process = home.start("-m", "spark_jobs.jobs.merge")
    until = time.monotonic() + 60
    while not any("java" in args or "spark-submit" in args for args in left_of(process.pid)):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert_stopped(home.wait(process))


def test_interrupted_while_it_writes(home: Home):
    """In `make soak` also at its audit; no branch is left behind, and the next run merges all."""
    for point in ("write", "audit") if IS_SOAK else ("write",):
        assert_stopped(home.run("-m", "tests.lake.ended", "interrupt", point, "merge"))
        assert list(lake(home.settings).load_table("events.trace_records").refs()) in ([], ["main"])
        assert home.records() == 0


def test_its_jvm_is_killed(home: Home):
    ended = home.run("-m", "tests.lake.ended", "kill-jvm", "write", "merge")
    assert ended.code == 1
    assert "Traceback" not in ended.output
    assert ended.last.startswith("failed: the Spark JVM of this job was killed (SIGKILL)")
    assert "run the job again" in ended.last
    assert ended.seconds < 60
    assert home.records() == 0


def test_its_jvm_is_out_of_memory(home: Home):
    small = home.settings.spark.conf | {"spark.testing.memory": "2000000000"}  # else Spark does not start
    ended = home.run(
        "-m",
        "spark_jobs.jobs.merge",
        TRACE_SPARK__DRIVER_MEMORY="50m",
        TRACE_SPARK__CONF=json.dumps(small),
    )
    assert ended.code == 1
    assert ended.last.startswith("failed: the Spark JVM of this job ran out of memory (50m)")
    assert "TRACE_SPARK__DRIVER_MEMORY" in ended.last
    assert "py4j.protocol" not in ended.output
    assert home.records() == 0


def test_with_too_little_memory_to_start(home: Home):
    ended = home.run("-m", "spark_jobs.jobs.merge", TRACE_SPARK__DRIVER_MEMORY="100m")
    assert ended.code == 1
    assert "raise spark.driver_memory" in ended.last


def test_the_next_run_goes_on(home: Home, monkeypatch):
    """After all of the above; then the marts are ended too. In `make soak` so is maintenance, and the marts go on."""
    run_jobs_on(home.settings, monkeypatch)
    if IS_SOAK:
        ended = home.run("-m", merge.__name__)
        assert ended.code == 0, ended.output
    else:
        assert merge.main([]) == 0
    assert home.records() == 2 * MESSAGES
    if IS_SOAK:
        assert_stopped(home.run("-m", "tests.lake.ended", "interrupt", "maintain", "maintain"))
    killed = home.run("-m", "tests.lake.ended", "kill-jvm", "build", "marts")
    assert killed.code == 1
    assert killed.last.startswith("failed: the Spark JVM of this job was killed (SIGKILL)")
    for point in ("build", "publish") if IS_SOAK else ("build",):
        assert_stopped(home.run("-m", "tests.lake.ended", "interrupt", point, "marts"))
    if IS_SOAK:  # else tests/dbt/test_kill_points.py has it, on smaller tables
        ended = home.run("-m", marts.__name__)
        assert ended.code == 0, ended.output
        assert lake(home.settings).load_table("marts.fct_consume_attempts").scan().to_arrow().num_rows > 0
