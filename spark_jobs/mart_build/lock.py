"""One build of the marts at a time on this machine: builds share the tables of `lake.changes` and dbt's target folder.

Under Airflow the pool `lake_marts` sees to that already; this is for jobs that are started by hand.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spark_jobs.process.file_lock import LockedError, locked

POLL_SECONDS = 1.0
SAY_SECONDS = 60.0


@contextmanager
def one_build(home: Path, job: str) -> Iterator[None]:
    """Wait until no other build runs, and keep others waiting; says whom it waits for.

    A build that was killed keeps nobody waiting: its lock ends with its process.

    Args:
        home: `TRACE_HOME`.
        job: what others are told they wait for.

    Raises:
        OSError: the lock file cannot be created.
    """
    file, said = home / "dbt" / "build.lock", -SAY_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(file, job))
                break
            except LockedError as error:
                if time.monotonic() - said >= SAY_SECONDS:
                    said = time.monotonic()
                    print(f"{error.holder} builds the marts: waiting for it", file=sys.stderr, flush=True)
                time.sleep(POLL_SECONDS)
        yield
