"""Maintain the tables, apply retention, and check more than what is new.

**Makes** no data. It deletes rows past their retention, compacts small files and manifests, expires snapshots, and drops
branches and orphan files of runs that died. The policy is `TABLE_POLICIES` in `spark_jobs/settings.py`; `make maintain
DRY_RUN=1` shows what it would do. `lake.ops.retention` records what was deleted. `history_tests` runs the tests of the marts
over all rows, and compares raw with events of the last days; a build tests only the rows that it writes, and compares only the
messages that it reads.

**Starts** once a day. Each task holds the slot of the pool whose jobs write its tables, so they do not run at the same time. If
they do, one of them fails with a commit conflict, and nothing is lost.

**Fails** if messages would be deleted from raw that are not merged yet, if a compaction changed rows, or if a table is damaged.
The other tables are still maintained. `history_tests` fails if a test finds rows (docs/runbooks/history_tests.md), or if raw
and events differ.

**What to do**: the task's log ends with one line per table, which names the failed one and the reason. Clear the task, or wait
for the next day: no other job depends on it soon.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag

from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job
from plugins.submit_operator import ClientModeOperator
from spark_jobs.settings import Settings


@dag(
    # No start date: the first run is the next one on the schedule, not the last one, at once.
    schedule=CronTriggerTimetable(
        Settings().schedules.maintenance, timezone="UTC", run_immediately=timedelta(0)
    ),
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
        ClientModeOperator(
            task_id=pool,
            application_args=["--pool", pool, "--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
            **spark_job("maintain", pool),
        )
    ClientModeOperator(
        task_id="history_tests",
        application_args=["--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
        **spark_job("history_tests", pool="lake_marts"),
    )


trace_maintenance()
