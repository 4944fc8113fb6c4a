"""A job to which something happens at a point: `python -m tests.lake.ended WHAT POINT JOB ARGUMENTS…`.

WHAT is `interrupt` (SIGINT to the whole process group, as a terminal sends it) or `kill-jvm` (SIGKILL to the JVM alone).
At the point the job prints `reached`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from pyspark import SparkContext

from spark_jobs.jobs import maintain
from spark_jobs.jobs.run import run_job
from spark_jobs.mart_build import dbt, publication
from spark_jobs.process import jvm
from spark_jobs.trace import merge as trace_merge
from tests.faults.jobs.job import around


def when_tasks_run(then: Callable[[], None]) -> Callable[[], None]:
    """From a thread of its own, as soon as tasks of a Spark job that starts from now on run."""

    def start() -> None:
        tracker = SparkContext._active_spark_context.statusTracker()  # type: ignore[union-attr]

        def look() -> None:
            while not tracker.getActiveJobsIds():
                time.sleep(0.005)
            then()

        threading.Thread(target=look, daemon=True).start()

    return start


def interrupt() -> None:
    print("reached", flush=True)
    os.killpg(0, signal.SIGINT)


def kill_jvm() -> None:
    print("reached", flush=True)
    found = jvm.jvm_process()
    assert found
    found.kill()


def main() -> None:
    what, point, name, *arguments = sys.argv[1:]
    happens = {"interrupt": interrupt, "kill-jvm": kill_jvm}[what]
    match point:
        case "write":
            around((trace_merge, "_insert"), before=when_tasks_run(happens))
        case "audit":
            around((trace_merge, "_audit"), before=happens)
        case "build":
            around((dbt, "dbtRunner"), before=when_tasks_run(happens))
        case "publish":
            around((publication, "_fast_forward"), before=happens)
        case "maintain":
            around((maintain, "maintain_table"), before=happens)
    job = importlib.import_module(f"spark_jobs.jobs.{name}")
    sys.exit(run_job(lambda: job.main(arguments)))


if __name__ == "__main__":
    main()
