"""One Java server of the sandbox: start it, wait until it is ready, stop or kill it, and never leave it behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy import child_process

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
TAIL_LINES = 25


class SandboxError(RuntimeError):
    """The sandbox could not be started or stopped; the message names the logs."""


class Server:
    """A Java server with all its files below `folder`."""

    def __init__(
        self,
        name: str,
        folder: Path,
        command: Callable[[], Sequence[str]],
        ready: Callable[[], bool],
        timeout: float,
    ):
        """`command` is built at each start; `ready` is called once the server has logged "boot success"."""
        self.name = name
        self.folder = folder
        self.log_file = folder / f"{name}.out"
        self._pid_file = folder / f"{name}.pid"
        self._command = command
        self._ready = ready
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the Java process.

        Raises:
            SandboxError: it does not run.
        """
        if self._process is None or self._process.poll() is not None:
            raise SandboxError(f"the {self.name} does not run; its output is in {self.log_file}")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start without waiting until it is ready."""
        if self.running:
            raise SandboxError(f"the {self.name} already runs, as process {self.pid}")
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.folder)}
        for variable in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "NAMESRV_ADDR"):
            environment.pop(variable, None)  # they could change heap sizes, or point to another cluster
        with self.log_file.open("wb") as output:
            self._process = child_process.spawn(
                self._command(),
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._pid_file.write_text(str(self._process.pid))

    def wait_until_ready(self) -> None:
        """Return once the server answers.

        Raises:
            SandboxError: it ended, or did not answer in time; the message ends with its output.
        """
        assert self._process is not None
        begin = time.monotonic()
        while time.monotonic() - begin < self._timeout:
            if (code := self._process.poll()) is not None:
                raise SandboxError(f"the {self.name} ended with code {code} while starting.{self._tail()}")
            if b"boot success" in self.log_file.read_bytes() and self._ready():
                log.info(
                    "%s is ready after %.1f s (process %d)", self.name, time.monotonic() - begin, self.pid
                )
                return
            time.sleep(POLL_SECONDS)
        raise SandboxError(f"the {self.name} was not ready after {self._timeout:.0f} s.{self._tail()}")

    def stop(self) -> None:
        """Stop it with SIGTERM, so that it flushes its store; with SIGKILL if it hangs."""
        if self._process is not None and not child_process.end(self._process, STOP_SECONDS):
            log.warning("the %s did not stop within %.0f s and was killed", self.name, STOP_SECONDS)
        self._gone()

    def kill(self) -> None:
        """Kill it with SIGKILL, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._gone()

    def _gone(self) -> None:
        self._process = None
        self._pid_file.unlink(missing_ok=True)

    def _tail(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        logs = self.folder / "logs" / "rocketmqlogs"
        return f" More in {self.log_file} and {logs}.\n" + "\n".join(lines)


def end_left_over(pid_file: Path, folder: Path) -> None:
    """End the process of the pid file, if it is still a server of this folder.

    Raises:
        SandboxError: it does not end.
    """
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text() or 0)
    if pid > 1 and _serves_folder(pid, folder):
        log.warning("ending process %d, left over from an earlier run on %s", pid, folder)
        for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                break
            give_up = time.monotonic() + patience
            while _serves_folder(pid, folder) and time.monotonic() < give_up:
                time.sleep(POLL_SECONDS)
            if not _serves_folder(pid, folder):
                break
        else:
            raise SandboxError(f"process {pid} on {folder} does not end: end it and start again")
    pid_file.unlink(missing_ok=True)


def _serves_folder(pid: int, folder: Path) -> bool:
    """Whether the process is a server of this folder: the pid may have been reused."""
    try:
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
        ps = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        command_line = subprocess.run(ps, capture_output=True, text=True).stdout.strip() + " "
    return f"-Duser.home={folder} " in command_line
