"""Java clients of RocketMQ in a process of their own, which lives as long as the tests need it: calls are lines of JSON.

A module with a class `Commands` starts it with `java_process`, and calls `serve(Commands)` when it is run:
`python -m <module> NAMESRV FOLDER` takes `["method", {arguments}]` lines and answers each with `[result, error]`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from deploy import child_process
from spark_jobs.settings import PROJECT


class JavaProcess:
    """Calls a method of `Commands` in the other process; raises AssertionError with what went wrong there."""

    def __init__(self, process: subprocess.Popen[str], log: Path):
        self._process, self._log = process, log

    def __call__(self, method: str, **arguments: Any) -> Any:
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the Java client ended: {self._log.read_text()[-3000:]}"
        result, error = json.loads(answer)
        assert error is None, f"{method}{arguments}: {error}"
        return result


@contextmanager
def java_process(module: str, namesrv: str, folder: Path, *arguments: str) -> Iterator[JavaProcess]:
    """The process of a module, until the block ends; it gets the nameserver, the folder and the arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "java.log"
    with log.open("w") as errors:
        process = child_process.spawn(
            [sys.executable, "-m", module, namesrv, str(folder), *arguments],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield JavaProcess(process, log)
    finally:
        child_process.end(process, 1.0)


def serve(commands_of: Callable[[str, Any], Any]) -> None:
    """Answer the calls on standard input until it ends, with the newest client.

    Args:
        commands_of: from the nameserver and the started admin tool to the object whose methods are called.
    """
    from sandbox import admin, java_client

    namesrv, folder = sys.argv[1:]
    with _answers() as answers:
        java_client.start_jvm(Path(folder))
        with admin.connected(namesrv) as tool:
            _answer_calls(commands_of(namesrv, tool), answers)


def serve_release(commands_of: Callable[[str], Any]) -> None:
    """Answer the calls on standard input until it ends, with the client of the release that is the third argument.

    Args:
        commands_of: from the nameserver to the object whose methods are called.
    """
    from sandbox import java_client
    from sandbox.releases import BY_VERSION

    namesrv, folder, version = sys.argv[1:]
    with _answers() as answers:
        java_client.start_jvm(Path(folder), BY_VERSION[version])
        _answer_calls(commands_of(namesrv), answers)


@contextmanager
def _answers() -> Iterator[TextIO]:
    """Standard output; what the Java client prints goes to standard error. The process ends with the block."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    yield answers
    os._exit(0)  # the JVM's own threads would keep the process


def _answer_calls(commands: Any, answers: TextIO) -> None:
    for line in sys.stdin:
        method, arguments = json.loads(line)
        try:
            answer = [getattr(commands, method)(**arguments), None]
        except Exception as error:
            answer = [None, f"{type(error).__name__}: {error}"]
        print(json.dumps(answer), file=answers, flush=True)
