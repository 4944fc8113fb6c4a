"""Processes that take commands on stdin and answer on stdout, and end when the benchmark ends."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from deploy import child_process

ANSWER_SECONDS = 600.0
END_SECONDS = 5.0
TAIL_CHARACTERS = 2000


class ChildFailed(RuntimeError):
    """A child ended, or did not answer in time; the text ends with what it said."""


class Child:
    """One process. A context manager: it is ended with the block, and with this process in any case.

    Attributes:
        ready: the words behind its READY.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Start it, and wait until it is ready.

        Raises:
            ChildFailed: it is not ready in time.
        """
        self.name = name
        self._log = folder / f"{name.replace(' ', '-').replace(',', '')}.log"
        with self._log.open("wb") as log:
            self._process = child_process.spawn(
                command,
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.pid = self._process.pid
        try:
            self.ready = self._answer("READY")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        child_process.end(self._process, END_SECONDS)

    def send(self, command: str) -> None:
        """Send a command, without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def done(self) -> list[str]:
        """The words behind the DONE of a command.

        Raises:
            ChildFailed: it has ended, or does not answer in time.
        """
        return self._answer("DONE")

    def _answer(self, word: str) -> list[str]:
        assert self._process.stdout is not None
        limit = threading.Timer(ANSWER_SECONDS, self._process.kill)
        limit.start()
        try:
            for line in self._process.stdout:  # Java's logging writes here, too
                if line.startswith(word):
                    return line.split()[1:]
        finally:
            limit.cancel()
        raise ChildFailed(
            f"{self.name} ended, or gave no {word} within {ANSWER_SECONDS:.0f} s:\n"
            + self._log.read_text(errors="replace")[-TAIL_CHARACTERS:]
        )
