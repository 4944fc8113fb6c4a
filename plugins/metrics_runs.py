"""Durations of the runs of the project's DAGs, from Airflow's database."""

from __future__ import annotations

from airflow.models import DagRun
from airflow.utils.session import create_session
from sqlalchemy import func, select

from spark_jobs.metrics.metric import Found, Series
from spark_jobs.metrics.registry import RUN_DURATION, RUN_END

_ENDED = ("success", "failed")


def read_runs() -> Found:
    """Of each DAG `trace_…` and state, the run that ended last.

    Raises:
        SQLAlchemyError: the database cannot be read.
    """
    number = func.row_number().over(
        partition_by=(DagRun.dag_id, DagRun.state), order_by=DagRun.end_date.desc()
    )
    ended = (
        select(DagRun.dag_id, DagRun.state, DagRun.start_date, DagRun.end_date, number.label("number"))
        .where(
            DagRun.dag_id.startswith("trace_", autoescape=True),
            DagRun.state.in_(_ENDED),
            DagRun.start_date.is_not(None),
            DagRun.end_date.is_not(None),
        )
        .subquery()
    )
    with create_session() as session:
        runs = session.execute(select(ended).where(ended.c.number == 1)).all()
    return {
        RUN_DURATION: [
            Series((run.dag_id, str(run.state)), (run.end_date - run.start_date).total_seconds())
            for run in runs
        ],
        RUN_END: [Series((run.dag_id, str(run.state)), run.end_date.timestamp()) for run in runs],
    }
