"""Another process holds the SQLite catalog: a clear error in bounded time, or a run that rides it out."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Timer

import pytest

from spark_jobs.jobs import brokers
from spark_jobs.lake.tables import RAW
from tests.faults.jobs.world import CLUSTER, Difference, World

PATIENCE = 180


@contextmanager
def locked(world: World) -> Iterator[None]:
    """Nobody else reads or writes the catalog."""
    holder = sqlite3.connect(
        world.settings.home / "catalog.db", isolation_level=None, timeout=60, check_same_thread=False
    )
    holder.execute("begin exclusive")
    try:
        yield
    finally:
        holder.close()


def test_locked_for_the_whole_run(world: World):
    world.write(500)
    before = world.head(RAW)
    with locked(world):
        job = world.start("spark_jobs.jobs.extract", "--cluster", CLUSTER, TRACE_CATALOG__LOCK_SECONDS="5")
        run = job.finished(PATIENCE)
    assert run.code not in (0, None)
    last = run.output.strip().splitlines()[-1]
    assert world.head(RAW) == before
    assert world.extract() == 0
    assert world.compare(RAW) == Difference(500, lost=0, doubled=0, wrong=0)
    assert "locked" in last, f"the error does not end with what is wrong: {run.output}"
    assert str(world.settings.home / "catalog.db") in last


def test_locked_for_some_seconds(world: World, monkeypatch: pytest.MonkeyPatch):
    """After the plan, longer than a commit of another job takes, and than SQLite waits by itself."""
    world.write(500)
    held: list[float] = []
    with ExitStack() as lock:

        def hold(*given, real=brokers.plan, **named):
            found = real(*given, **named)
            lock.enter_context(locked(world))
            Timer(8, lock.close).start()
            held.append(time.monotonic())
            return found

        monkeypatch.setattr(brokers, "plan", hold)
        assert world.extract() == 0
    assert len(held) == 1
    assert time.monotonic() - held[0] > 8
    assert world.compare(RAW) == Difference(500, lost=0, doubled=0, wrong=0)
