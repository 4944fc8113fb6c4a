"""Airflow's tasks as a check: one that failed, until it succeeds."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from spark_jobs.alerts import book, rounds
from spark_jobs.alerts.alert import identity
from spark_jobs.checks.check import Measured, judge
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import Settings


def ended(settings: Settings, task: str, failed: bool, detail: str, run_id: str, now: datetime) -> None:
    """Book that a task failed, and tell people; or that it succeeded, where it stood as failed.

    Args:
        settings: where the lake is, and whom to tell.
        task: `<dag>/<task>`, and what it was mapped to, if it was.
        failed: for good, after its retries.
        detail: where to look; no text of an exception, which may hold anything.
        run_id: Airflow's.
        now: UTC.
    """
    check = BY_NAME["task_failed"]
    if check.name in settings.checks.off:
        return
    found = judge(check, [Measured(task, int(failed), detail)], settings)
    found = replace(found, complete=False)  # nothing is said of other tasks
    name = identity(found, found.results[0], settings.environment)
    if not failed and not any(alert.is_open and alert.identity == name for alert in book.read(settings)):
        return
    rounds.tell_of([found], settings, run_id, now)
