"""Run a job in the driver that stays (`spark_jobs.driver.serve`); a job of Airflow imports this, so it loads no Spark."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0  # until the first answer, which says whether the driver runs the job
BUSY_SECONDS = 60.0  # more than a usual job takes; a process of its own costs more CPU


class DriverEndedError(RuntimeError):
    """The driver ended while it ran the job: nothing that was published is lost, and the job can run again."""


class DriverBusyError(RuntimeError):
    """Another job runs in the driver."""


@dataclass(frozen=True)
class Address:
    """Where the driver listens.

    Attributes:
        port: on loopback.
        key: a secret that each request has; only the owner of `TRACE_HOME` can read it.
        pid: of the driver.
    """

    port: int
    key: str
    pid: int

    @staticmethod
    def file(home: Path) -> Path:
        return home / "driver.json"

    @classmethod
    def read(cls, home: Path) -> Address | None:
        """That of the driver which was started last; None if there is none."""
        try:
            return cls(**json.loads(cls.file(home).read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None


class Client:
    """A connection to the driver of a `TRACE_HOME`, for one job."""

    def __init__(self, home: Path):
        self._address = Address.read(home)
        self._socket: socket.socket | None = None

    def run(
        self,
        job: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        say: Callable[[str], object],
        busy_seconds: float = BUSY_SECONDS,
    ) -> int | None:
        """Run a job and return its exit code; None if the driver does not run it: it is away, busy or has other settings.

        Args:
            job: its module, such as `spark_jobs.jobs.ingest`.
            arguments: of its command line.
            environment: variables that it needs.
            say: gets each line that it prints, and why the driver does not run it.
            busy_seconds: how long to wait for the end of another job.

        Raises:
            DriverEndedError: the connection broke while the job ran.
        """
        request = {"job": job, "arguments": [*arguments], "environment": {**environment}}
        while_busy = Retrying(
            retry=retry_if_exception_type(DriverBusyError),
            stop=stop_after_delay(busy_seconds),
            wait=wait_fixed(1),
            reraise=True,
        )
        try:
            return while_busy(self._run, request, say)
        except DriverBusyError as error:
            say(f"the driver does not run it: {error}, for {busy_seconds:.0f} s now")
            return None

    def _run(self, request: dict[str, Any], say: Callable[[str], object]) -> int | None:
        try:
            answers = self._ask(request, ANSWER_SECONDS)
        except OSError as error:
            say(f"no driver runs: {error}")
            return None
        try:
            first = answers.readline()
        except OSError as error:
            self.close()
            say(f"the driver does not answer: {error}")
            return None
        assert self._socket is not None
        self._socket.settimeout(None)
        try:
            for line in chain([first] if first else [], answers):
                answer = json.loads(line)
                if "line" in answer:
                    say(answer["line"])
                elif "busy" in answer:
                    raise DriverBusyError(answer["busy"])
                elif "refused" in answer:
                    say(f"the driver does not run it: {answer['refused']}")
                    return None
                else:
                    return int(answer["code"])
        except (OSError, ValueError) as error:
            raise DriverEndedError(f"the connection to the driver broke: {error}") from error
        finally:
            self.close()
        raise DriverEndedError("the driver ended while it ran the job; its log says why")

    def answers(self) -> bool:
        """Whether a driver answers, also while it runs a job."""
        try:
            return "code" in json.loads(self._ask({}, CONNECT_SECONDS).readline() or "{}")
        except (OSError, ValueError):
            return False
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection. While a job runs, that ends it: the driver ends, with all of its processes."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def _ask(self, request: dict[str, Any], seconds: float) -> IO[str]:
        """Send a request; the first answer may take so many seconds."""
        if self._address is None:
            raise ConnectionRefusedError("none was started")
        self._socket = socket.create_connection(("127.0.0.1", self._address.port), CONNECT_SECONDS)
        self._socket.settimeout(seconds)
        self._socket.sendall(json.dumps(request | {"key": self._address.key}).encode() + b"\n")
        return self._socket.makefile("r", encoding="utf-8")
