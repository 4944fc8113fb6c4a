"""Java clients of RocketMQ in a process of their own (`tests/client_process.py`).

A module with a class `Commands` starts it with `java_process`, and calls `serve(Commands)` when it is run:
`python -m <module> NAMESRV FOLDER`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from tests.client_process import ClientProcess, client_process


@contextmanager
def java_process(module: str, namesrv: str, folder: Path, *arguments: str) -> Iterator[ClientProcess]:
    """The process of a module, until the block ends; it gets the nameserver, the folder and the arguments."""
    command = [sys.executable, "-m", module, namesrv, str(folder), *arguments]
    with client_process(command, folder / "java.log") as process:
        yield process


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
