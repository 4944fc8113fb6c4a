"""The JVM of this process's Spark session: whether and why it has died, and how to end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

# Exit codes of -XX:+ExitOnOutOfMemoryError, and of Spark for a task that ran out of memory.
OUT_OF_MEMORY = (3, 52)
STOP_SECONDS = 10


class JvmDiedError(RuntimeError):
    """The Spark JVM of this job has died; the next run repeats what was not published."""


def process() -> subprocess.Popen[bytes] | None:
    """The JVM that this process has started; None if there is none, as under spark-submit, where the JVM is the parent."""
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    return getattr(gateway, "proc", None) if gateway else None


def exit_code(wait_seconds: float = 0) -> int | None:
    """The JVM's exit code, as `Popen.returncode`; None while it runs, or if there is none.

    Args:
        wait_seconds: how long to wait for its end: its connections break before it ends.
    """
    if (jvm := process()) is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return jvm.wait(wait_seconds)
    return None


def raise_if_died() -> None:
    """Raise JvmDiedError if the JVM has died."""
    if (code := exit_code()) is not None:
        raise JvmDiedError(f"the Spark JVM ended with code {code}")


def stop() -> None:
    """End the JVM and the other child processes in order; with SIGKILL after `STOP_SECONDS`."""
    if (jvm := process()) is not None and jvm.stdin is not None:
        with suppress(OSError):
            jvm.stdin.close()  # PySpark's gateway cleans up and ends when its standard input is closed
        if exit_code(STOP_SECONDS) is None:
            jvm.kill()
            jvm.wait()
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + STOP_SECONDS / 2
        while (left := descendants()) and time.monotonic() < until:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
            time.sleep(0.1)


def kill() -> None:
    """End the JVM and the other child processes at once, with SIGKILL."""
    for pid in descendants():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants() -> list[int]:
    """The child processes of this process and theirs, except helpers of Python and ended ones."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # pid (name) state ppid …; the name may contain spaces and brackets
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            is_helper = b"multiprocessing" in (entry / "cmdline").read_bytes()  # ends with this process
        except (OSError, ValueError):
            continue  # it has just ended
        if state != "Z" and not is_helper:
            children.setdefault(int(parent), []).append(int(entry.name))
    found, left = list[int](), [os.getpid()]
    while left:
        started = children.get(left.pop(), [])
        found += started
        left += started
    return found
