"""Airflow's tasks as a check: one that failed, until it succeeds or is no more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from spark_jobs.alerts import run_checks, store
from spark_jobs.checks.check import Measured, judge
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import Settings

CHECK = BY_NAME["task_failed"]


def ended(
    settings: Settings,
    task: str,
    failed: bool,
    detail: str,
    run_id: str,
    now: datetime,
    there: Collection[str] | None = None,
) -> None:
    """Book that a task failed, and tell people; or that it succeeded, where it stood as failed.

    Args:
        settings: where the lake is, and whom to tell.
        task: `<dag>/<task>`, and what it was mapped to, if it was.
        failed: for good, after its retries.
        detail: where to look; no text of an exception, which may hold anything.
        run_id: Airflow's.
        now: UTC.
        there: all tasks of the DAG, named so, `<dag>/<task>/*` for any mapping: others of it end. None: not known.
    """
    if CHECK.name in settings.checks.off:
        return
    standing = {
        alert.entity
        for alert in store.read(settings)
        if alert.is_open and alert.check == CHECK.name and alert.environment == settings.environment
    }
    found = [Measured(task, int(failed), detail)] if failed or task in standing else []
    if there is not None:
        gone = [name for name in standing - {task} if name and _is_gone(name, task.partition("/")[0], there)]
        found += [Measured(name, 0, "the DAG has no such task any more") for name in sorted(gone)]
    if found:
        # Nothing is said of other tasks.
        evaluation = replace(judge(CHECK, found, settings), complete=False)
        run_checks.notify_about([evaluation], settings, run_id, now)


def _is_gone(name: str, dag: str, there: Collection[str]) -> bool:
    dag_of_it, task, *_ = name.split("/", 2)
    return dag_of_it == dag and name not in there and f"{dag}/{task}/*" not in there
