"""Run a job that is killed at a point, or that ends there in this session, and look at what it left."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.lake import catalog, publish
from spark_jobs.lake.tables import EVENTS, RAW, Table
from tests.faults.jobs.job import Step
from tests.faults.jobs.world import World
from tests.soak import IS_SOAK

REPEATS = int(os.environ.get("TRACE_SOAK_REPEATS", "1"))
MESSAGES = 2000 if IS_SOAK else 800
TABLES = {"extract": RAW, "merge": EVENTS}


class Crash(BaseException):
    """Ends a job where it stands, past every `except Exception`."""


def crashed(step: Step, job: Callable[[], int], after: bool = False) -> None:
    """Let a job of this session end before or after it takes the step; as one that is killed, it drops no branch."""
    module, name = step
    real = getattr(module, name)

    def dies(*given: Any, **named: Any) -> None:
        if after:
            real(*given, **named)
        raise Crash

    with pytest.MonkeyPatch.context() as patch, suppress(Crash):
        patch.setattr(module, name, dies)
        patch.setattr(publish, "drop_branch", lambda *_: None)
        job()


@contextmanager
def readers(world: World, table: Table) -> Iterator[list[int | None]]:
    """The snapshots that main was at in the meantime, as readers saw them."""
    seen = [world.head(table)]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.3):
            if (now := world.head(table)) != seen[-1]:
                seen.append(now)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join()
        if (now := world.head(table)) != seen[-1]:
            seen.append(now)


def snapshots_of(world: World, table: Table, run_id: str) -> tuple[set[int], set[int]]:
    """The snapshots that a run has committed: all of them, and those on main."""
    metadata = catalog.lake(world.settings).load_table(table.name)
    ours = {s.snapshot_id for s in metadata.snapshots() if s.summary["trace.run_id"] == run_id}
    main, on_main = metadata.current_snapshot(), set()
    while main is not None:
        on_main.add(main.snapshot_id)
        main = metadata.snapshot_by_id(main.parent_snapshot_id) if main.parent_snapshot_id else None
    return ours, ours & on_main


def killed(world: World, point: str, arguments: list[str], mark: Path, **environment: str) -> dict[str, Any]:
    """Run a job that is killed at the point; returns what it saw there."""
    mark.unlink(missing_ok=True)
    run = world.run("tests.faults.jobs.killed", point, str(mark), *arguments, **environment)
    assert mark.exists(), f"{point} was not reached, exit code {run.code}:\n{run.output}"
    assert run.code == -signal.SIGKILL, run.output
    seen = json.loads(mark.read_text())
    assert_gone([seen["jvm"], *seen["workers"]])
    return seen


def assert_gone(pids: list[int]) -> None:
    until = time.monotonic() + 10
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
