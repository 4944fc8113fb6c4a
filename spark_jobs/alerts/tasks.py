"""The check `task_failed`: an Airflow task that failed, until it succeeds or no longer exists."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from spark_jobs.alerts import run_checks, store
from spark_jobs.checks.check import Measured, judge
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import Settings

CHECK = BY_NAME["task_failed"]


def task_ended(
    settings: Settings,
    task: str,
    failed: bool,
    detail: str,
    run_id: str,
    now: datetime,
    existing: Collection[str] | None = None,
) -> None:
    """Save that a task failed and notify; or that it succeeded, if its alert is open.

    Args:
        settings: the lake and the sinks.
        task: `<dag>/<task>`, with the map label of a mapped task.
        failed: after all retries.
        detail: where to look; never the text of an exception, which may contain secrets.
        run_id: of Airflow.
        now: UTC.
        existing: all tasks of the DAG, `<dag>/<task>/*` for mapped ones: alerts of other tasks are resolved. None if unknown.
    """
    if CHECK.name in settings.checks.off:
        return
    standing = {
        alert.entity
        for alert in store.read(settings)
        if alert.is_open and alert.check == CHECK.name and alert.environment == settings.environment
    }
    found = [Measured(task, int(failed), detail)] if failed or task in standing else []
    if existing is not None:
        gone = [
            name for name in standing - {task} if name and _is_gone(name, task.partition("/")[0], existing)
        ]
        found += [Measured(name, 0, "the DAG no longer has this task") for name in sorted(gone)]
    if found:
        # The result covers this task only.
        evaluation = replace(judge(CHECK, found, settings), complete=False)
        run_checks.notify_about([evaluation], settings, run_id, now)


def _is_gone(name: str, dag: str, existing: Collection[str]) -> bool:
    dag_of_it, task, *_ = name.split("/", 2)
    return dag_of_it == dag and name not in existing and f"{dag}/{task}/*" not in existing
