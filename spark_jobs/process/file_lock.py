"""A lock file that contains the name of its holder. The kernel releases the lock when the holder ends.

The lock is held while its holder, or a child process that inherited the open file (`pass_fds`), runs: after `kill -9` of
the holder its child processes still hold it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

import psutil

# The holder writes its name right after it acquired the lock.
NAME_SECONDS = 1.0


@dataclass(frozen=True)
class Holder:
    """The process that acquired a lock.

    Attributes:
        command: the command that the user typed.
        pid: of the process; 0 if unknown.
        started: start of the process in clock ticks since boot, to detect another process that reuses the pid. The start
            as a time (psutil's `create_time`) changes when the clock is set.
        since: when it acquired the lock, ISO 8601 with the local UTC offset.
    """

    command: str
    pid: int
    started: int
    since: str

    def __str__(self) -> str:
        if not self.pid:
            return "an unknown process"
        return f"`{self.command}` (pid {self.pid}, since {self.since[11:19]})"

    @property
    def is_alive(self) -> bool:
        """Whether this very process runs; true if it is unknown."""
        return not self.pid or start_ticks(self.pid) == self.started


class LockedError(RuntimeError):
    """Another process holds the lock."""

    def __init__(self, file: Path, holder: Holder):
        super().__init__(f"{holder} holds {file}")
        self.holder = holder


@contextmanager
def locked(file: Path, command: str) -> Iterator[IO[str]]:
    """Hold the lock within the block; yields the open file.

    Raises:
        LockedError: another process holds it.
        OSError: the file cannot be created.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(file, _read(lock)) from None
        started = start_ticks(os.getpid()) or 0
        me = Holder(command, os.getpid(), started, datetime.now().astimezone().isoformat(timespec="seconds"))
        with suppress(OSError):  # a full disk: the holder is then unknown
            lock.truncate(0)
            lock.write(json.dumps(asdict(me)))
            lock.flush()
        try:
            yield lock
        finally:
            with suppress(OSError):  # only a killed process leaves its name
                lock.truncate(0)


def holder(file: Path) -> Holder | None:
    """The process that acquired the lock, if the lock is held now; None if it is free."""
    with suppress(FileNotFoundError), file.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(lock)
    return None


def processes_with(file: Path) -> list[int]:
    """The processes of this user that have the file open, except the caller."""
    path = str(file.resolve())
    return [
        process.pid
        for process in psutil.process_iter(["open_files"])
        if process.pid != os.getpid()
        and any(each.path == path for each in process.info["open_files"] or ())  # None: another user's
    ]


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it does not run."""
    try:
        # pid (name) state ppid … starttime is field 22; the name may contain spaces and brackets
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _read(lock: IO[str]) -> Holder:
    until = time.monotonic() + NAME_SECONDS
    while time.monotonic() < until:
        lock.seek(0)
        try:
            return Holder(**json.loads(lock.read()))
        except (ValueError, TypeError):
            time.sleep(0.05)
    return Holder("", 0, 0, "")
