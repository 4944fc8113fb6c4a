"""Callbacks that open an alert for a failed task, and resolve it when the task succeeds again.

A killed task may never call them; then the watchdog alerts that nothing is published any more.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseNotifier
from jinja2 import UndefinedError

if TYPE_CHECKING:
    from airflow.sdk import Context


class TraceAlertNotifier(BaseNotifier):
    """Notifies of a task through the same alerts and sinks as the checks; route `pipeline`, entity `<dag>/<task>`.

    Args:
        ended: the event of the callback.
    """

    def __init__(self, ended: Literal["failed", "succeeded"], **kwargs: Any):
        super().__init__(**kwargs)
        self.ended = ended

    def notify(self, context: Context) -> None:
        # Airflow parses a DAG file every few seconds, which needs none of this.
        from spark_jobs.alerts import tasks
        from spark_jobs.settings import Settings

        ti = context["ti"]
        error = context.get("exception")
        parts = [f"run {ti.run_id}, try {ti.try_number}"]
        if error is not None:
            parts.append(error if isinstance(error, str) and len(error) < 40 else type(error).__name__)
        parts.append(f"its log: {getattr(ti, 'log_url', None) or 'in the UI'}")
        run_id, failed = f"{ti.dag_id}/{ti.run_id}", self.ended == "failed"
        existing = task_names(context["dag"])
        tasks.task_ended(
            Settings(), task_name(ti), failed, ", ".join(parts), run_id, datetime.now(UTC), existing
        )


def task_name(ti: Any) -> str:
    """`<dag>/<task>`, with the map label of a mapped task."""
    name = f"{ti.dag_id}/{ti.task_id}"
    if (ti.map_index if ti.map_index is not None else -1) < 0:
        return name
    # The DAG processor calls the callback of a killed task, and renders nothing.
    return f"{name}/{getattr(ti, 'rendered_map_index', None) or _label(ti.task, ti.map_index)}"


def task_names(dag: Any) -> set[str]:
    """`task_name` of all tasks of the DAG; `<dag>/<task>/*` for a task whose mapping is known only in a run."""
    names = set()
    for task in dag.tasks:
        name, mapped = f"{dag.dag_id}/{task.task_id}", _mapped(task)
        if not task.is_mapped:
            names.add(name)
        elif mapped is None:
            names.add(f"{name}/*")
        else:
            names |= {f"{name}/{_label(task, n)}" for n in range(len(mapped))}
    return names


def _mapped(task: Any) -> list[dict[str, Any]] | None:
    """The arguments by map index, if the DAG file lists them; a mapped function has them as `op_kwargs`."""
    value = getattr(getattr(task, "expand_input", None), "value", None)
    if function := getattr(task, "op_kwargs_expand_input", None):
        value = [{"op_kwargs": each} for each in function.value] if isinstance(function.value, list) else None
    return value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else None


def _label(task: Any, index: int) -> str:
    mapped = _mapped(task)
    if mapped is None or index >= len(mapped) or not task.map_index_template:
        return str(index)
    arguments = SimpleNamespace(**task.partial_kwargs | mapped[index])
    try:
        return task.get_template_env().from_string(task.map_index_template).render(task=arguments)
    except UndefinedError:  # it uses a value that only a run has
        return str(index)


# For the default_args of a DAG.
CALLBACKS = {
    "on_failure_callback": TraceAlertNotifier("failed"),
    "on_success_callback": TraceAlertNotifier("succeeded"),
}
