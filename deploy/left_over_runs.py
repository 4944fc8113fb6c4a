"""Mark the unfinished runs of a killed `airflow dags test` as failed; a scheduler would resume them.

It needs Airflow's environment, and no `make run` may be running.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import or_, select, update


def fail() -> list[str]:
    """Mark them and their tasks as failed, without callbacks; return `<dag id>/<run id>` of each."""
    with create_session() as session:
        runs = session.scalars(
            select(DagRun).where(
                DagRun.triggered_by == DagRunTriggeredByType.TEST,
                DagRun.state.in_([DagRunState.RUNNING, DagRunState.QUEUED]),
            )
        ).all()
        for run in runs:
            session.execute(
                update(TaskInstance)
                .where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
                .where(or_(TaskInstance.state.is_(None), TaskInstance.state.in_(State.unfinished - {None})))
                .values(state=TaskInstanceState.FAILED, end_date=datetime.now(UTC))
                .execution_options(synchronize_session=False)
            )
            run.set_state(DagRunState.FAILED)
        return [f"{run.dag_id}/{run.run_id}" for run in runs]


if __name__ == "__main__":
    for name in fail():
        print(f"marked as failed: {name}, an unfinished run of `make run` or `make demo`")
