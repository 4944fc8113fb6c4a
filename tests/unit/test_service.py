"""The logs of `make up`: appended to by each start, and rotated while their processes write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def supervised(
    home: Path, component: Component, health: dict[str, Callable[[], bool | None]]
) -> Iterator[Service]:
    """A service with one component, and no Airflow that answers."""
    (home / "airflow").mkdir(exist_ok=True)
    with (
        (home / "lock").open("w") as lock,
        Service(
            Settings(home=home),
            "http://127.0.0.1:1",
            dict(os.environ),
            [component],
            health,
            Timeouts(first_pause=0),
            lock.fileno(),
            lambda _: None,
        ) as found,
    ):
        yield found


def test_each_start_of_a_component_appends_to_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "LOG_BYTES", 1000)
    logs = tmp_path / "airflow" / "components"
    logs.mkdir(parents=True)
    (logs / "scheduler.log").write_text("of the start before\n")
    superset = tmp_path / "superset"
    superset.mkdir()
    for file in (logs / "up.log", superset / "superset.log"):
        file.write_text("x" * 1000)
    command = ("sh", "-c", "echo started; sleep 600")
    with supervised(tmp_path, Component("scheduler", command), {}) as it:
        it._step(time.monotonic())
        wait_for(logs / "scheduler.log", "started")
    assert (logs / "scheduler.log").read_text() == "of the start before\nstarted\n"
    for file in (logs / "up.log", superset / "superset.log"):
        assert file.with_name(f"{file.name}.1").read_text() == "x" * 1000
        assert file.read_text() == ""


def test_components_that_all_answer_are_asked_less_often(tmp_path, monkeypatch):
    """In each step until they answer, then at an interval; a restarted one again in each step."""
    monkeypatch.setattr(service, "HEALTH_SECONDS", 600)
    asked: list[bool] = []

    def answers() -> bool:
        asked.append(len(asked) >= 2)
        return asked[-1]

    with supervised(tmp_path, Component("a", ("sleep", "600")), {"a": answers}) as it:
        a = it.supervisor.states["a"]
        for _ in range(8):
            it._step(time.monotonic())
        assert asked == [False, False, True]
        assert a.healthy_since is not None
        first = a.pid
        os.kill(first, signal.SIGKILL)
        until = time.monotonic() + 30
        while a.pid == first or a.healthy_since is None:
            assert time.monotonic() < until
            time.sleep(0.05)
            it._step(time.monotonic())
        assert asked == [False, False, True, True]
        monkeypatch.setattr(service, "HEALTH_SECONDS", 0)
        it._next_question = 0.0
        for _ in range(3):
            it._step(time.monotonic())
        assert len(asked) == 7
