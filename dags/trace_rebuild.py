"""Compute all rows of changed models of the marts, beside the normal runs.

**Makes** the tables of `lake.marts` and `lake.intermediate` whose models have other SQL, columns or limits, and publishes all
tables together. Until then `trace_marts` goes on with the published models. If no model has changed, or if `trace_marts`
computes the rows itself (`rebuild.at_once_records`), no Spark job is started.

**Fails** if a model, a test or an integrity check fails. Readers keep the published marts, and `trace_marts` goes on with their
models.

**What to do**: the task's log ends with a table of the failed models and tests. Fix the cause, then clear the task: it goes on
after the last model that was computed.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag

from plugins.idle_operator import SparkUnlessIdleOperator
from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job
from spark_jobs.settings import Settings


@dag(
    schedule=CronTriggerTimetable(Settings().schedules.rebuild, timezone="UTC", run_immediately=timedelta(0)),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["tier-2", "marts"],
    default_args={
        "owner": "data-platform",
        "retries": 2,
        "retry_delay": timedelta(minutes=5),
        "retry_exponential_backoff": True,
        "execution_timeout": timedelta(hours=12),
        **CALLBACKS,
    },
)
def trace_rebuild() -> None:
    SparkUnlessIdleOperator(
        task_id="rebuild",
        idle_job="spark_jobs.jobs.rebuild_due",
        application_args=["--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
        # Not that of `trace_marts`, which builds meanwhile.
        **spark_job("rebuild", pool="lake_rebuild"),
    )


trace_rebuild()
