"""Checks that are measured elsewhere: by the supervisor of `make up`, by the watchdog for itself, by Airflow's callbacks.

This module imports neither Spark nor the lake, as the supervisor does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from spark_jobs.checks.check import Measured, Run, check

_elsewhere = partial(check, kind="freshness", stage="airflow")


@_elsewhere("installation", "Airflow's {entity} does not run: {detail}", stage="supervisor")
def airflow_component(run: Run) -> Iterable[Measured]:
    """A component of Airflow that `make up` runs ends repeatedly, or has not answered for minutes."""
    return ()


@_elsewhere(
    "installation",
    "the watchdog has not run for {value} of its intervals",
    stage="supervisor",
    limit="watchdog_silent_intervals",
)
def watchdog_silent(run: Run) -> Iterable[Measured]:
    """`trace_watchdog` has not run for too many of its intervals."""
    return ()


@_elsewhere("ops.check_results", "the watchdog could not do its work: {detail}")
def watchdog(run: Run) -> Iterable[Measured]:
    """The watchdog could not run its checks, save their results or deliver notifications."""
    return ()


@_elsewhere("airflow", "task {entity} failed")
def task_failed(run: Run) -> Iterable[Measured]:
    """A task of a DAG failed after all retries, and has not succeeded since."""
    return ()
