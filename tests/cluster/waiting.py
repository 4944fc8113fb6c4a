"""A job whose only task runs for an hour; for test_executors.py."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from spark_jobs.jobs.run import run_job
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings


def main() -> int:
    context = session("waiting", Settings()).sparkContext

    def wait(_: Iterable[int]) -> None:
        time.sleep(3600)

    print("a task runs", flush=True)
    context.parallelize([1], 1).foreachPartition(wait)
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
