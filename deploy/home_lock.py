"""The lock of `TRACE_HOME`: one of `make run`, `make demo` and `make up` at a time, as they share Airflow's database and logs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from deploy import child_process
from spark_jobs.process.ending import end_all
from spark_jobs.process.file_lock import NAME_SECONDS, Holder, LockedError, holder, locked, processes_with
from spark_jobs.process.home import LOCK

# The child processes of a killed holder have GRACE_SECONDS to end by themselves.
LEFT_OVER_SECONDS = child_process.GRACE_SECONDS + 10


class HomeInUseError(RuntimeError):
    """Another command uses this `TRACE_HOME`; the message names it."""


def lock_file(home: Path) -> Path:
    return home / LOCK


def user_of(home: Path) -> Holder | None:
    """The command that uses the folder, or that left processes in it; None if there is none."""
    return holder(lock_file(home))


@contextmanager
def used_by(command: str, home: Path, say: Callable[[str], None] = print) -> Iterator[IO[str]]:
    """Hold the lock within the block; yield the open lock file, for child processes to inherit (`pass_fds`).

    Processes that a killed command left are ended first.

    Args:
        command: as the user typed it, such as `make run`.
        home: `TRACE_HOME`.
        say: prints a line.

    Raises:
        HomeInUseError: another command uses it.
    """
    end_left_over(home, say)
    try:
        with locked(lock_file(home), command) as lock:
            yield lock
    except LockedError as error:
        raise HomeInUseError(in_use(error.holder, home)) from None


def in_use(by: Holder, home: Path) -> str:
    """The message for a second command that needs the folder."""
    end_it = "run `make down`" if by.command == "make up" else "wait for it, or end it with Ctrl-C"
    return f"{by} is using {home}: {end_it}"


def end_left_over(home: Path, say: Callable[[str], None] = print) -> None:
    """Wait until the processes of a killed command end, and kill those that do not. Other processes are not touched."""
    by = user_of(home)
    if by is None or by.is_alive:
        return
    time.sleep(
        NAME_SECONDS
    )  # another command may have acquired the lock just now, and not written its name yet
    if user_of(home) != by or not (sessions := _sessions(home)):
        return
    say(f"{by} was killed; ending its remaining processes: {', '.join(map(str, _members(sessions)))}")
    if left := end_all(lambda: _members(sessions), {0: LEFT_OVER_SECONDS, signal.SIGKILL: 10}):
        say(f"processes {', '.join(map(str, left))} cannot be killed")


def _sessions(home: Path) -> set[int]:
    """The sessions of the processes that hold the lock; `child_process` starts each command in a session of its own."""
    found = set()
    for pid in processes_with(lock_file(home)):
        with suppress(ProcessLookupError):
            found.add(os.getsid(pid))
    return found - {os.getsid(0)}


def _members(sessions: set[int]) -> list[int]:
    return sorted(pid for session in sessions for pid in child_process.session_of(session))
