"""Runs of the pipeline that are ended in the middle: by SIGKILL, by Ctrl-C, or one of their Spark jobs alone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.settings import PROJECT

SECONDS = 1200
INTO_THE_JOB = 4  # seconds after which it reads, writes or publishes


@dataclass(frozen=True)
class Ended:
    """A run as it ended: its exit code, what it wrote, and by id the processes that it left running."""

    code: int
    output: str
    left: dict[int, str]


class Run:
    """A command that takes a cluster through the DAGs, everything below `home`, as a process."""

    def __init__(self, home: Path, command: Sequence[str], environment: Mapping[str, str], log: Path):
        self._home, self._log = home, log
        self._before = _processes_of(home)
        with log.open("w") as out:
            self._process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=os.environ | environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                # A shell that runs the tests in the background has Ctrl-C ignored, and so would the run.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
                process_group=0,
            )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def output(self) -> str:
        return self._log.read_text()

    def in_the_middle(self) -> int:
        """Wait until its first Spark job is at work; returns the JVM of that job."""
        until = time.monotonic() + SECONDS
        while not (found := [pid for pid, command in self._started().items() if _extracts(command)]):
            assert self._process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.2)
        time.sleep(INTO_THE_JOB)
        return found[0]

    def kill(self) -> None:
        self._process.kill()

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal does it: to the command and what it runs in the foreground."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> Ended:
        """Wait for the end, and for that of all that it has started."""
        code = self._process.wait(SECONDS)
        until = time.monotonic() + 30
        while (left := self._started()) and time.monotonic() < until:
            time.sleep(0.5)
        return Ended(code, self.output, left)

    def _started(self) -> dict[int, str]:
        now = _processes_of(self._home)
        return {pid: command for pid, command in now.items() if pid not in self._before}


def _extracts(command: str) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in command and "extract.py" in command


def _processes_of(home: Path) -> dict[int, str]:
    """The processes whose command or environment names the folder, but for this one."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has just ended
        if int(entry.name) != os.getpid() and str(home) in command + environment:
            found[int(entry.name)] = command
    return found
