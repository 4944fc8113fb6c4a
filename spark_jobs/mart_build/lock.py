"""Locks: one build of the marts at a time on this machine, as builds share `lake.changes` and dbt's target folder; one rebuild.

A rebuild goes on beside builds. For its last step it holds both locks; who needs both acquires that of the rebuilds first.

Under Airflow the tasks that write marts have the pool `lake_marts`; `ingest`, which has another pool and may build marts, too,
and jobs that are started by hand or by `dags test` have only the lock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spark_jobs.process.file_lock import LockedError, holder, locked

POLL_SECONDS = 1.0
MESSAGE_SECONDS = 60.0
_FILE = "dbt/build.lock"
_FILE_OF_REBUILD = "dbt/rebuild.lock"


@contextmanager
def one_build(home: Path, job: str) -> Iterator[None]:
    """Acquire the lock; while it waits, print the holder.

    The kernel releases the lock of a killed process.

    Args:
        home: `TRACE_HOME`.
        job: name of the holder, printed by waiting jobs.

    Raises:
        OSError: the lock file cannot be created.
    """
    with _waiting(home / _FILE, job, "builds the marts: waiting for it"):
        yield


@contextmanager
def build_at_once(home: Path, job: str) -> Iterator[None]:
    """`one_build`, without waiting.

    Raises:
        LockedError: another job holds the lock.
    """
    with locked(home / _FILE, job):
        yield


@contextmanager
def one_rebuild(home: Path, job: str) -> Iterator[None]:
    """Acquire the lock of the rebuilds, without waiting.

    Raises:
        LockedError: another process rebuilds.
    """
    with locked(home / _FILE_OF_REBUILD, job):
        yield


def rebuilds(home: Path) -> bool:
    """Whether a process holds the lock of the rebuilds."""
    return holder(home / _FILE_OF_REBUILD) is not None


@contextmanager
def no_rebuild(home: Path, job: str) -> Iterator[None]:
    """Acquire the lock of the rebuilds; a rebuild that runs and whose state was removed ends after its step."""
    with _waiting(home / _FILE_OF_REBUILD, job, "rebuilds the marts: waiting for the end of its step"):
        yield


@contextmanager
def _waiting(file: Path, job: str, doing: str) -> Iterator[None]:
    printed_at = -MESSAGE_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(file, job))
                break
            except LockedError as error:
                if time.monotonic() - printed_at >= MESSAGE_SECONDS:
                    printed_at = time.monotonic()
                    print(f"{error.holder} {doing}", file=sys.stderr, flush=True)
                time.sleep(POLL_SECONDS)
        yield
