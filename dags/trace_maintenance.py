"""Keep the tables small and no older than they may be, and test all that is in the marts.

**Makes** no data: drops rows past their retention, rewrites small files and manifests, expires snapshots, drops
branches and files of runs that died. The policy is one table, `TABLE_POLICIES` in `spark_jobs/settings.py`; `make maintain
DRY_RUN=1` shows what it would do. What is dropped stands in `lake.ops.retention`. `history_tests` runs the marts' tests over all
rows, where a build tests those that it writes, and changes nothing.

**Starts** once a day. Each task takes the slot of the pool whose jobs write its tables, so it is never at work while they
publish. Should both be at it all the same, one is refused by the compare-and-set and nothing is lost.

**Fails** when messages would be dropped from raw that are not merged yet, when a compaction did not leave the rows as
they were, or when something is wrong with a table. The other tables are kept all the same. `history_tests` fails when a
test finds rows (docs/runbooks/history_tests.md).

**What to do**: the task's log ends with a line for each table and says which one failed and why. Clear the task, or
leave it to the next day: nothing depends on it soon.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import CronTriggerTimetable, dag

from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job


@dag(
    # No start date: the first run is tonight's, not at once last night's.
    schedule=CronTriggerTimetable("17 3 * * *", timezone="UTC", run_immediately=timedelta(0)),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["tier-3", "maintenance"],
    default_args={
        "owner": "data-platform",
        "retries": 1,
        "retry_delay": timedelta(minutes=5),
        "execution_timeout": timedelta(hours=3),
        **CALLBACKS,
    },
)
def trace_maintenance() -> None:
    for pool in ("lake_publish", "lake_marts"):
        SparkSubmitOperator(
            task_id=pool,
            application_args=["--pool", pool, "--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
            **spark_job("maintain", pool),
        )
    SparkSubmitOperator(
        task_id="history_tests",
        application_args=["--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
        **spark_job("history_tests", pool="lake_marts"),
    )


trace_maintenance()
