"""Build, test and publish the marts: dbt on one Spark session.

**Makes** the tables of `lake.marts`, on a branch each, and puts them on main together after their
tests have passed.

**Starts** when `trace_ingest` has published records, and on a timer: a message that nobody consumed
becomes an orphan when time passes, without any new record.

**Fails** when a model, a test or an integrity check fails. Readers then keep the last good marts. Checks of the
messaging are made after the publication, and only tell.

**What to do**: the task's log ends with a table of the models and tests that failed. Mend, then
clear the task; a run takes everything since the last publication.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, dag

from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job

RECORDS = Asset("lake.events.trace_records")


@dag(
    # No start date: the first run is the next quarter's, not at once the last one's.
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("*/15 * * * *", timezone="UTC", run_immediately=timedelta(0)),
        assets=[RECORDS],
    ),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["tier-1", "marts"],
    default_args={
        "owner": "data-platform",
        "retries": 1,
        "retry_delay": timedelta(seconds=30),
        "execution_timeout": timedelta(hours=1),
        **CALLBACKS,
    },
)
def trace_marts() -> None:
    SparkSubmitOperator(
        task_id="build",
        application_args=["--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
        **spark_job("marts", pool="lake_marts"),
    )


trace_marts()
