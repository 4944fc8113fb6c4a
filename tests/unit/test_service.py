"""The logs of `make up`: appended to by each start, and rotated while their processes write."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy import service
from deploy.service import Service, rotate
from deploy.supervisor import Component, Timeouts
from spark_jobs.settings import Settings

# Writes a line to its output for each line of its input.
ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def wait_for(file: Path, text: str) -> None:
    until = time.monotonic() + 30
    while not file.exists() or text not in file.read_text():
        assert time.monotonic() < until, f"{text} is not in {file}"
        time.sleep(0.02)


def test_a_log_is_rotated_while_its_process_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "LOG_BYTES", 500)
    monkeypatch.setattr(service, "LOG_BACKUPS", 2)
    file = tmp_path / "scheduler.log"
    with (
        file.open("a") as out,
        subprocess.Popen(
            [sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=out, text=True
        ) as writer,
    ):
        for batch in ("first", "second", "third", "fourth"):
            rotate(file)
            for n in range(100):
                writer.stdin.write(f"{batch} {n}\n")
            writer.stdin.flush()
            wait_for(file, f"{batch} 99\n")
    found = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert found == {
        name: "".join(f"{batch} {n}\n" for n in range(100))
        for name, batch in {
            "scheduler.log": "fourth",
            "scheduler.log.1": "third",
            "scheduler.log.2": "second",
        }.items()
    }


def test_a_small_log_is_not_rotated(tmp_path):
    file = tmp_path / "scheduler.log"
    file.write_text("a line\n")
    rotate(file)
    assert [each.name for each in tmp_path.iterdir()] == ["scheduler.log"]


def test_a_log_that_cannot_be_copied_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "LOG_BYTES", 1)
    file = tmp_path / "scheduler.log"
    file.write_text("a line\n")
    (tmp_path / "scheduler.log.1").write_text("before\n")
    (tmp_path / "scheduler.log.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        rotate(file)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        "scheduler.log": "a line\n",
        "scheduler.log.1": "before\n",
    }


def test_each_start_of_a_component_appends_to_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "LOG_BYTES", 1000)
    logs = tmp_path / "airflow" / "components"
    logs.mkdir(parents=True)
    (logs / "scheduler.log").write_text("of the start before\n")
    (logs / "up.log").write_text("x" * 1000)
    with (tmp_path / "lock").open("w") as lock:
        command = ("sh", "-c", "echo started; sleep 600")
        supervised = Service(
            Settings(home=tmp_path),
            "http://127.0.0.1:1",
            dict(os.environ),
            [Component("scheduler", command)],
            {},
            Timeouts(),
            lock.fileno(),
            lambda _: None,
        )
        with supervised:
            supervised._step(time.monotonic())
            wait_for(logs / "scheduler.log", "started")
    assert (logs / "scheduler.log").read_text() == "of the start before\nstarted\n"
    assert (logs / "up.log.1").read_text() == "x" * 1000
    assert (logs / "up.log").read_text() == ""
