"""Run a command that cannot outlive the process that started it.

A child in a session of its own is not interrupted by Ctrl-C on the terminal, so its parent can stop it in order. But it would
also survive the parent. So `spawn` runs this file as a script, which forks a guard process and then executes the command, with
the pid that `Popen` has. The guard process waits until the starting process (not thread, as with PR_SET_PDEATHSIG) or the
command has ended. If the starting process ended, even by SIGKILL, the command gets SIGTERM and, after `GRACE_SECONDS`, SIGKILL.
Then the guard process kills what the command left in its session.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GRACE_SECONDS = 25.0
POLL_SECONDS = 0.3


def spawn(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, **popen: Any
) -> subprocess.Popen[Any]:
    """Start `command` in a session of its own; it ends when this process does.

    Further keywords go to `subprocess.Popen`. `Popen.pid` is the command's own pid.
    """
    guard = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid())]
    return subprocess.Popen([*guard, *command], env=env, start_new_session=True, **popen)


def end(process: subprocess.Popen[Any], grace_seconds: float) -> bool:
    """Stop a process with SIGTERM, and with SIGKILL after `grace_seconds`; return whether SIGTERM was enough."""
    if process.poll() is not None:
        return True
    process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def _wait_for_either(starter: int, command: int) -> None:
    """Return when one of the two processes has ended."""
    try:
        pidfds = [os.pidfd_open(starter), os.pidfd_open(command)]
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # a kernel before 5.3, or a sandbox that forbids the call
        while Path(f"/proc/{starter}").exists() and os.getppid() == command:
            time.sleep(POLL_SECONDS)
    else:
        select.select(pidfds, [], [])


def _watch(starter: int, command: int) -> None:
    _wait_for_either(starter, command)
    if os.getppid() == command:
        os.kill(command, signal.SIGTERM)
        give_up = time.monotonic() + GRACE_SECONDS
        while os.getppid() == command and time.monotonic() < give_up:
            time.sleep(0.05)
        if os.getppid() == command:
            os.kill(command, signal.SIGKILL)
    for left_over in session_of(command):
        with contextlib.suppress(ProcessLookupError):
            os.kill(left_over, signal.SIGKILL)


def session_of(leader: int) -> list[int]:
    """The running processes of the session of `leader`, without the caller; they may be in other process groups."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # pid (name) state ppid pgrp session …; the name may contain spaces and brackets
            state, *fields = (entry / "stat").read_text().rpartition(")")[2].split()
            session = int(fields[2])
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        if session == leader and state not in "ZX" and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def _main() -> None:
    starter, command = int(sys.argv[1]), sys.argv[2:]
    if os.getppid() != starter:
        sys.exit("the process that started this command has already ended")
    me = os.getpid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the guard process ends after the command
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # an open pipe would hide the end of the command from its reader
            os.dup2(null, stream)
        try:
            _watch(starter, me)
        finally:
            os._exit(0)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error}")


if __name__ == "__main__":
    _main()
