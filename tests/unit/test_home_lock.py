"""One command at a time uses a folder; only the processes of a killed command are ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy import child_process, home_lock
from deploy.home_lock import HomeInUseError, end_left_over, lock_file, used_by, user_of
from spark_jobs.process.file_lock import processes_with
from spark_jobs.settings import PROJECT

# Holds the folder, and a child with a guard process; it holds it as well and does not listen to SIGTERM.
HOLDS = """
import subprocess, sys, time
from pathlib import Path
from deploy import child_process
from deploy.home_lock import used_by

with used_by("make run", Path(sys.argv[1])) as lock:
    child = child_process.spawn(["sh", "-c", "trap '' TERM; echo ready; sleep 600"], pass_fds=(lock.fileno(),))
    print(child.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def hold(tmp_path) -> Iterator[Callable[[], tuple[subprocess.Popen, int]]]:
    """Start a process that holds `tmp_path/home`; gives it and the pid of its child."""
    started: list[tuple[subprocess.Popen, int]] = []

    def start() -> tuple[subprocess.Popen, int]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(tmp_path / "home")],
            cwd=PROJECT,
            env=os.environ | {"PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        # The child's `ready` and its pid, in any order.
        said = {process.stdout.readline().strip() for _ in range(2)}
        started.append((process, int((said - {"ready"}).pop())))
        return started[-1]

    yield start
    for process, child in started:
        for each in (process.pid, *child_process.session_of(child)):
            if process.poll() is None or each != process.pid:
                os.kill(each, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def guard_of(child: int) -> int:
    """The process that would end the child when its parent ends."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for pid in child_process.session_of(child):
            if pid != child and b"child_process.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        time.sleep(0.02)
    raise AssertionError("the child has no guard process")


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


def test_a_second_command_is_rejected_with_the_name_of_the_first(home, hold):
    process, child = hold()
    with pytest.raises(HomeInUseError) as refused, used_by("make run", home):
        raise AssertionError("both use it")
    since = user_of(home).since[11:19]
    assert str(refused.value) == (
        f"`make run` (pid {process.pid}, since {since}) is using {home}: wait for it, or end it with Ctrl-C"
    )
    assert child_process.session_of(child), "nothing of the first was ended"


def test_the_lock_is_released_at_the_end_of_the_block(home):
    for _ in range(2):
        with used_by("make run", home):
            assert user_of(home).pid == os.getpid()
        assert user_of(home) is None


def test_processes_of_a_killed_command_are_ended_first(home, hold, monkeypatch):
    """Also where its guard process was killed, too."""
    monkeypatch.setattr(home_lock, "LEFT_OVER_SECONDS", 1)
    process, child = hold()
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        watcher = guard_of(child)
        os.kill(watcher, signal.SIGKILL)
        process.kill()
        process.wait()
        assert user_of(home).pid == process.pid, "its child holds it still"
        lines: list[str] = []
        with used_by("make up", home, lines.append):
            assert user_of(home).command == "make up"
        assert child_process.session_of(child) == []
        assert f"`make run` (pid {process.pid}" in lines[0]
        assert str(child) in lines[0]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_copy_of_the_folder_is_not_locked(home, hold, tmp_path):
    """Its files name processes of the original, which are not touched."""
    process, child = hold()
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    assert str(process.pid) in lock_file(copy).read_text()
    assert user_of(copy) is None
    end_left_over(copy)
    with used_by("make up", copy):
        pass
    assert process.poll() is None
    assert child in processes_with(lock_file(home))


def test_a_reused_pid_is_not_killed(home, hold):
    """The lock names a pid that another process has now."""
    process, child = hold()
    process.kill()
    process.wait()
    file = lock_file(home)
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        file.write_text(file.read_text().replace(f'"pid": {process.pid}', f'"pid": {bystander.pid}'))
        assert user_of(home).pid == bystander.pid
        assert not user_of(home).is_alive
        members = home_lock._members(home_lock._sessions(home))
        assert child in members
        assert bystander.pid not in members
    finally:
        bystander.kill()
        bystander.wait()


def test_the_lock_is_kept_on_a_full_disk(tmp_path):
    """It cannot say then who holds it."""
    lock_file(tmp_path).symlink_to("/dev/full")
    with used_by("make run", tmp_path):
        pass


def test_a_holder_without_a_name_counts_as_alive(home, hold):
    process, child = hold()
    lock_file(home).write_text("")
    lines: list[str] = []
    with pytest.raises(HomeInUseError, match="an unknown process"), used_by("make run", home, lines.append):
        raise AssertionError("both use it")
    assert lines == []
    assert process.poll() is None
    assert child_process.session_of(child)


def test_waiting_for_a_killed_command_ends_with_its_child(home, hold):
    process, child = hold()
    os.kill(child, signal.SIGKILL)
    process.kill()
    process.wait()
    begin = time.monotonic()
    with used_by("make run", home, lambda _: None):
        pass
    assert time.monotonic() - begin < 10
