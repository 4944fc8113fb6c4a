"""Whatever dies in the middle, the next `make demo` goes on: nothing lost, doubled or left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from deploy import run_once, show
from sandbox.record import read_record
from spark_jobs.settings import PROJECT, Settings

SECONDS = 600


class Demo:
    """`make demo` as a process, on a folder."""

    def __init__(self, home: Path):
        self.home = home
        self.log = home.with_suffix(".log")
        out = self.log.open("a")
        self.begin = out.tell()
        environment = os.environ | {"TRACE_HOME": str(home), "PYTHONPATH": str(PROJECT)}
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
        return self.log.read_text()[self.begin :]

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + SECONDS
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.2)


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


def spark_job(home: Path) -> int:
    """The JVM of the Spark job that runs now."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for pid, command in processes_of(home).items():
            if "org.apache.spark.deploy.SparkSubmit" in command and "extract.py" in command:
                return pid
        time.sleep(0.2)
    raise AssertionError("no Spark job started")


def assert_none_left(home: Path) -> None:
    until = time.monotonic() + 30
    while left := processes_of(home):
        assert time.monotonic() < until, left
        time.sleep(0.5)


@pytest.mark.timeout(2400)
def test_killed_in_the_middle(tmp_path):
    home = tmp_path / "home"

    demo = Demo(home)
    demo.wait_for("airflow dags test trace_ingest")
    spark_job(home)
    time.sleep(4)  # it reads, writes or publishes by now
    demo.process.kill()
    demo.process.wait()
    assert_none_left(home)

    demo = Demo(home)
    demo.wait_for("airflow dags test trace_ingest")
    spark_job(home)
    time.sleep(4)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(60) != 0
    assert demo.output.splitlines()[-1] == run_once.STOPPED
    assert "Traceback" not in demo.output
    assert_none_left(home)

    demo = Demo(home)
    demo.wait_for("airflow dags test trace_ingest")
    job = spark_job(home)
    time.sleep(4)
    os.kill(job, signal.SIGKILL)  # Airflow tries the task again
    assert demo.process.wait(2 * SECONDS) == 0, demo.output
    assert_none_left(home)

    record = read_record(home / "sandbox" / "traffic")
    assert len(record.runs) == 3
    found: dict[str, Counter[str]] = {}
    for row in show.rows(
        Settings(home=home), "events.trace_records", "trace_topic", "record_type"
    ).to_pylist():
        found.setdefault(row["trace_topic"], Counter())[row["record_type"]] += 1
    assert found == record.expected()
    summary = json.loads((home / "demo" / "summary.json").read_text())
    assert summary["raw_rows"] == summary["trace_messages_broker"]
    assert summary["sends"] == sum(len(send["msg_ids"]) for send in record.sends if send["traced"])
    assert summary["attempts"] == sum(consume["traced"] for consume in record.consumes)
