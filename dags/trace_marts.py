"""Build, test and publish the marts: dbt on one Spark session.

**Makes** the tables of `lake.marts`, each on a branch, and fast-forwards all of them to main together after their tests have
passed. If a build would change nothing, no Spark job is started: the watermarks advance.

**Starts** when `trace_ingest` has published records, and on a timer: a message that no group consumes becomes an orphan as time
passes, without a new record.

**Fails** if a model, a test or an integrity check fails. Readers keep the last published marts. Checks of the messaging run
after the publication, and only send alerts.

**What to do**: the task's log ends with a table of the failed models and tests. Fix the cause, then clear the task; a run
processes everything since the last publication.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, dag

from plugins.idle_operator import SparkUnlessIdleOperator
from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job
from spark_jobs.settings import Settings

RECORDS = Asset("lake.events.trace_records")


@dag(
    # No start date: the first run is the next one on the schedule, not the last one, at once.
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(
            Settings().schedules.marts, timezone="UTC", run_immediately=timedelta(0)
        ),
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
    SparkUnlessIdleOperator(
        task_id="build",
        idle_job="spark_jobs.jobs.advance_marts",
        application_args=["--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
        # The job `ingest` in the driver may be building the marts: a second JVM would only slow it down.
        busy_seconds=600,
        **spark_job("marts", pool="lake_marts"),
    )


trace_marts()
