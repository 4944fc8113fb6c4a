"""The JVM of this process's Spark session: whether and why it has died, and how to end it."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress

import psutil

from spark_jobs.process.ending import end_all

# Exit codes of -XX:+ExitOnOutOfMemoryError, and of Spark for a task that ran out of memory.
OUT_OF_MEMORY = (3, 52)
STOP_SECONDS = 10


class JvmDiedError(RuntimeError):
    """The Spark JVM of this job has died; the next run repeats what was not published."""


def jvm_process() -> subprocess.Popen[bytes] | None:
    """The JVM that this process has started; None if there is none, as under spark-submit, whose JVM is the parent."""
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    return getattr(gateway, "proc", None) if gateway else None


def exit_code(wait_seconds: float = 0) -> int | None:
    """The JVM's exit code, as `Popen.returncode`; None while it runs, or if there is none.

    Args:
        wait_seconds: how long to wait for its end: its connections break before it ends.
    """
    if (jvm := jvm_process()) is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return jvm.wait(wait_seconds)
    return None


def raise_if_died() -> None:
    """Raise JvmDiedError if the JVM has died."""
    if (code := exit_code()) is not None:
        raise JvmDiedError(f"the Spark JVM ended with code {code}")


def stop() -> None:
    """End the JVM, then the other child processes; with SIGKILL after `STOP_SECONDS`."""
    if (jvm := jvm_process()) is not None and jvm.stdin is not None:
        with suppress(OSError):
            jvm.stdin.close()  # PySpark's gateway cleans up and ends when its standard input is closed
        if exit_code(STOP_SECONDS) is None:
            jvm.kill()
            jvm.wait()
    seconds = STOP_SECONDS / 2
    end_all(
        lambda: [child.pid for child in descendants()], {signal.SIGTERM: seconds, signal.SIGKILL: seconds}
    )


def kill() -> None:
    """End the JVM and the other child processes at once, with SIGKILL."""
    for process in descendants():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def descendants() -> list[psutil.Process]:
    """The running child processes of this process and theirs, except helpers of Python, which end with it."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            is_helper = any("multiprocessing" in part for part in child.cmdline())
            if not is_helper and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found
