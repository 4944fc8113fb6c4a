"""RocketMQ clients in a process of their own, which lives as long as the tests need it: calls are lines of JSON.

The process takes `["method", {arguments}]` lines on standard input and answers each with `[result, error]` on standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy import child_process
from spark_jobs.settings import PROJECT


class ClientProcess:
    """Calls a method in the other process; raises AssertionError with what went wrong there."""

    def __init__(self, process: subprocess.Popen[str], log: Path):
        self._process, self._log = process, log

    def __call__(self, method: str, **arguments: Any) -> Any:
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the client ended: {self._log.read_text()[-3000:]}"
        result, error = json.loads(answer)
        assert error is None, f"{method}{arguments}: {error}"
        return result


@contextmanager
def client_process(command: Sequence[str], log: Path) -> Iterator[ClientProcess]:
    """The process of a command, until the block ends; its standard error goes to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors:
        process = child_process.spawn(
            command,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield ClientProcess(process, log)
    finally:
        child_process.end(process, 1.0)
