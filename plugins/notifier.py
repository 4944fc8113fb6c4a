"""Callbacks that make an alert of a task that failed, and resolve it when the task succeeds again.

A task that is killed may never call them: then the watchdog tells that nothing is published any more.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context


class TraceAlertNotifier(BaseNotifier):
    """Tells of a task through the same alerts and sinks as the checks; route `pipeline`, entity `<dag>/<task>`.

    Args:
        ended: what the callback that it is given to means.
    """

    def __init__(self, ended: Literal["failed", "succeeded"], **kwargs: Any):
        super().__init__(**kwargs)
        self.ended = ended

    def notify(self, context: Context) -> None:
        # A DAG file is read every few seconds, and needs none of this.
        from spark_jobs.alerts import tasks
        from spark_jobs.settings import Settings

        ti = context["ti"]
        error = context.get("exception")
        parts = [f"run {ti.run_id}, try {ti.try_number}"]
        if error is not None:
            parts.append(error if isinstance(error, str) and len(error) < 40 else type(error).__name__)
        parts.append(f"its log: {getattr(ti, 'log_url', None) or 'in the UI'}")
        run_id, failed = f"{ti.dag_id}/{ti.run_id}", self.ended == "failed"
        tasks.ended(Settings(), task_name(ti), failed, ", ".join(parts), run_id, datetime.now(UTC))


def task_name(ti: Any) -> str:
    """`<dag>/<task>`, and what the task was mapped to, if it was."""
    name = f"{ti.dag_id}/{ti.task_id}"
    if (ti.map_index if ti.map_index is not None else -1) < 0:
        return name
    return f"{name}/{getattr(ti, 'rendered_map_index', None) or ti.map_index}"


# What a DAG puts into its default_args.
CALLBACKS = {
    "on_failure_callback": TraceAlertNotifier("failed"),
    "on_success_callback": TraceAlertNotifier("succeeded"),
}
