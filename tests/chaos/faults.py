"""What a fault does while it stands. Each is a context manager: the fault begins and ends with its block."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

import psutil

from deploy.up import State
from sandbox.broker import Sandbox
from spark_jobs.settings import Settings
from tests.chaos.sinks import Sinks

# The api-server serves the others: without it the whole of Airflow fails, which is another fault.
COMPONENTS = ("scheduler", "dag-processor", "triggerer")
_BALLAST = "ballast"


@dataclass
class World:
    """What faults are done to.

    Attributes:
        settings: of the lake; `home` is a small file system of its own.
        sandbox: nameserver and broker.
        sinks: which receive the alerts.
        dice: draws what is hit.
    """

    settings: Settings
    sandbox: Sandbox
    sinks: Sinks
    dice: random.Random

    def fault(self, kind: str, is_long: bool) -> AbstractContextManager[str]:
        """The context manager of a kind; yields what is hit, in a few words."""
        of_kinds: dict[str, Callable[[bool], AbstractContextManager[str]]] = {
            "component": self._component,
            "job": self._job,
            "broker": self._broker,
            "slow broker": self._slow_broker,
            "sink": self._sink,
            "full disk": self._full_disk,
        }
        return of_kinds[kind](is_long)

    @contextmanager
    def _component(self, is_long: bool) -> Iterator[str]:
        """Kill it; a long fault kills each new process of it, too."""
        name = self.dice.choice(COMPONENTS)

        def kill() -> None:
            pid = State(self.settings).read().get("components", {}).get(name, {}).get("pid")
            if pid:
                _kill(pid)

        with _again_and_again(kill, 2.0 if is_long else None):
            yield name

    @contextmanager
    def _job(self, is_long: bool) -> Iterator[str]:
        """Kill every job, and the driver that runs them."""

        def kill() -> None:
            for process in psutil.process_iter(["cmdline"]):
                command = " ".join(process.info["cmdline"] or ())
                if ("spark_jobs.jobs." in command or "spark_jobs.driver.serve" in command) and self._is_ours(
                    process
                ):
                    _kill(process.pid)

        with _again_and_again(kill, 1.0 if is_long else None):
            yield "jobs and the driver"

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.environ().get("TRACE_HOME") == str(self.settings.home)
        return False

    @contextmanager
    def _broker(self, is_long: bool) -> Iterator[str]:
        self.sandbox.broker.kill()
        try:
            yield "killed"
        finally:
            self.sandbox.broker.start()

    @contextmanager
    def _slow_broker(self, is_long: bool) -> Iterator[str]:
        """It answers in a tenth of the time; in a long fault it accepts connections and does not answer."""
        pid = self.sandbox.broker_pid
        if is_long:
            os.kill(pid, signal.SIGSTOP)
            try:
                yield "stopped"
            finally:
                os.kill(pid, signal.SIGCONT)
            return

        def stop_and_go() -> None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.9)
            os.kill(pid, signal.SIGCONT)

        with _again_and_again(stop_and_go, 0.1):
            yield "slow"

    @contextmanager
    def _sink(self, is_long: bool) -> Iterator[str]:
        """The chat and the dead man's switch answer 503; Alertmanager, which is observed, goes on."""
        self.sinks.refuse()
        try:
            yield "chat and dead man's switch"
        finally:
            self.sinks.accept()

    @contextmanager
    def _full_disk(self, is_long: bool) -> Iterator[str]:
        """Fill the file system of `TRACE_HOME`, and fill it again whenever something is freed."""
        ballast = self.settings.home / _BALLAST

        def fill() -> None:
            with suppress(OSError), ballast.open("ab", buffering=0) as file:
                while True:
                    file.write(b"\0" * 65_536)

        try:
            with _again_and_again(fill, 1.0):
                yield str(self.settings.home)
        finally:
            ballast.unlink(missing_ok=True)


@contextmanager
def _again_and_again(act: Callable[[], None], pause: float | None) -> Iterator[None]:
    """Act once before the block, and in a thread after each pause until its end; None: only once."""
    act()
    if pause is None:
        yield
        return
    ends = threading.Event()

    def repeat() -> None:
        while not ends.wait(pause):
            act()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
