"""One Java server of the sandbox: start it, wait until it is ready, stop or kill it, and never leave it behind."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from deploy import child_process
from spark_jobs.process.ending import end_all

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
TAIL_LINES = 25
# An idle broker of 5.5.0 takes a tenth of a core: its dispatcher sleeps for 1 ms at a time, and ten others for 5 to 10 ms. With
# this slack the kernel wakes them together, and it takes half of that; what a test waits for comes this much later.
TIMER_SLACK_SECONDS = 0.01
_PR_SET_TIMERSLACK = 29


class SandboxError(RuntimeError):
    """The sandbox could not be started or stopped; the message names the logs."""


@contextmanager
def timer_slack(seconds: float) -> Iterator[None]:
    """Processes that this thread starts within the block may be woken so much later than their timers say (Linux)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, int(seconds * 1e9))
    try:
        yield
    finally:
        with suppress(AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 0)


@dataclass
class Server:
    """A Java server with all its files below `folder`.

    Attributes:
        name: of its log, and in messages.
        folder: its home.
        command: is built at each start.
        ready: whether it answers; is called once it has logged "boot success".
        timeout: until it is ready, seconds.
    """

    name: str
    folder: Path
    command: Callable[[], Sequence[str]]
    ready: Callable[[], bool]
    timeout: float
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log_file(self) -> Path:
        return self.folder / f"{self.name}.out"

    @property
    def pid(self) -> int:
        """The process id of the Java process.

        Raises:
            SandboxError: it does not run.
        """
        if self._process is None or self._process.poll() is not None:
            raise SandboxError(f"the {self.name} does not run; its output is in {self.log_file}")
        return self._process.pid

    def start(self) -> None:
        """Start it unless it runs, and return once it answers.

        Raises:
            SandboxError: it ended, or did not answer in time; the message ends with its output.
        """
        if self._process is not None and self._process.poll() is None:
            return
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.folder)}
        for variable in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "NAMESRV_ADDR"):
            environment.pop(variable, None)  # they could change heap sizes, or point to another cluster
        with self.log_file.open("wb") as output, timer_slack(TIMER_SLACK_SECONDS):
            self._process = child_process.spawn(
                self.command(),
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        begin = time.monotonic()
        while time.monotonic() - begin < self.timeout:
            if (code := self._process.poll()) is not None:
                raise SandboxError(f"the {self.name} ended with code {code} while starting.{self._tail()}")
            if b"boot success" in self.log_file.read_bytes() and self.ready():
                log.info(
                    "%s is ready after %.1f s (process %d)", self.name, time.monotonic() - begin, self.pid
                )
                return
            time.sleep(POLL_SECONDS)
        raise SandboxError(f"the {self.name} was not ready after {self.timeout:.0f} s.{self._tail()}")

    def stop(self) -> None:
        """Stop it with SIGTERM, so that it flushes its store; with SIGKILL if it hangs."""
        if self._process is not None and not child_process.end(self._process, STOP_SECONDS):
            log.warning("the %s did not stop within %.0f s and was killed", self.name, STOP_SECONDS)

    def kill(self) -> None:
        """Kill it with SIGKILL, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        logs = self.folder / "logs" / "rocketmqlogs"
        return f" More in {self.log_file} and {logs}.\n" + "\n".join(lines)


def end_left_over(folder: Path) -> None:
    """End the servers of this folder that an earlier run has left.

    Raises:
        SandboxError: one of them does not end.
    """

    def left_over() -> list[int]:
        found = psutil.process_iter(["cmdline"])
        return [each.pid for each in found if f"-Duser.home={folder}" in (each.info["cmdline"] or ())]

    if pids := left_over():
        log.warning("ending processes %s, left over from an earlier run on %s", pids, folder)
    if left := end_all(left_over, {signal.SIGTERM: STOP_SECONDS, signal.SIGKILL: 5.0}):
        raise SandboxError(f"processes {left} on {folder} do not end: end them and start again")
