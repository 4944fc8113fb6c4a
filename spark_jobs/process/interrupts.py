"""Ctrl-C in a job: it cleans up, its JVM ends with it, and the exit code is 130."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from spark_jobs.process import jvm

EXIT_CODE = 130
# Time for the clean-up: the job drops its branch and closes its maintenance window.
GRACE_SECONDS = 20
# A JVM that does not hang changes its log level immediately.
LOG_LEVEL_SECONDS = 5
STOPPED = "stopped: nothing is lost, the next run continues after the last publication"

STOPPING = "stopping; press Ctrl-C again to exit immediately"

_handling = False
_requested = threading.Event()
_terminal: list[int] = []  # standard output and error, as they were


@contextmanager
def handled() -> Iterator[None]:
    """Within the block SIGINT raises KeyboardInterrupt in the main thread and cancels Spark jobs; a second one exits."""
    global _handling
    before = signal.getsignal(signal.SIGINT)
    _requested.clear()
    _handling = True
    install()
    try:
        yield
    finally:
        _handling = False
        signal.signal(signal.SIGINT, before)
        _restore_output()


def install() -> None:
    """Install the handler again, within `handled`: a new Spark context has installed its own.

    PySpark's handler uses the connection that the interrupted call waits on, and fails.
    """
    if _handling and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _on_signal)


def requested() -> bool:
    """Whether SIGINT was received since `handled`."""
    return _requested.is_set()


def raise_if_requested() -> None:
    """Raise KeyboardInterrupt again after code that swallowed it, such as dbt."""
    if requested():
        raise KeyboardInterrupt


def _on_signal(_: int, __: FrameType | None) -> None:
    if requested():
        _exit_now()
    _requested.set()
    say(STOPPING)
    _discard_output()
    log_is_off = threading.Event()
    threading.Thread(target=_cancel, args=(log_is_off,), daemon=True).start()
    # Wait for it: the clean-up stops the session, and tasks that end then log stack traces.
    log_is_off.wait(LOG_LEVEL_SECONDS)
    raise KeyboardInterrupt


def _cancel(log_is_off: threading.Event) -> None:
    """Cancel Spark jobs until the process ends; end it after a grace period, as the exception may have been swallowed."""
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until:
        with suppress(Exception):
            context = sys.modules["pyspark"].SparkContext._active_spark_context
            if context is not None:
                context.setLogLevel("OFF")  # each cancelled task logs a stack trace
                log_is_off.set()
                context.cancelAllJobs()
        log_is_off.set()  # also without a Spark context
        time.sleep(0.5)
        if not _handling:
            return
    _exit_now()


def _exit_now() -> None:
    jvm.kill()
    _restore_output()
    say(STOPPED)
    os._exit(EXIT_CODE)


def say(line: str) -> None:
    """Print a line to standard error."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode())


def _discard_output() -> None:
    """Discard output: interrupted code prints stack traces in several threads, all caused by the interrupt."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    for stream_number in (1, 2):
        _terminal.append(os.dup(stream_number))
        os.dup2(null, stream_number)
    os.close(null)


def _restore_output() -> None:
    for stream_number, before in zip((1, 2), _terminal, strict=False):
        os.dup2(before, stream_number)
        os.close(before)
    _terminal.clear()
