"""Show which task of `airflow dags test` runs, by the log that it writes."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

from rich.console import Console

POLL_SECONDS = 0.5
# Between two lines about the same task, where the output is no terminal.
LINE_SECONDS = 20.0
_STARTING = re.compile(r"\[DAG TEST\] starting task_id=(\S+)")


def wait(process: subprocess.Popen[Any], dag: str, log: Path, console: Console) -> int:
    """Wait for the end of a DAG run; return its exit code.

    A terminal always shows the task and the time since the start of the DAG. Other outputs get a line when a task starts, and
    one every `LINE_SECONDS`.
    """
    started = time.monotonic()
    shown, next_line = "", 0.0
    with console.status(f"{dag}: starting") as status:
        while True:
            try:
                return process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                task, seconds = running_task(log), time.monotonic() - started
            status.update(f"{dag}: {task} ({seconds:.0f} s)")
            if not console.is_terminal and (task != shown or seconds >= next_line):
                shown, next_line = task, seconds + LINE_SECONDS
                console.print(f"  {task} ({seconds:.0f} s)")


def running_task(log: Path) -> str:
    """The task that started last; `starting` before the first."""
    return (_STARTING.findall(log.read_text(errors="replace")) or ["starting"])[-1]
