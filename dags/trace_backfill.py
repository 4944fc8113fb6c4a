"""Decode raw messages anew, after a change of the decoder.

**Makes** the records of `lake.events.trace_records` anew for messages stored from `start` to before `end` (UTC),
where the decoder reads them otherwise now. One commit a day of store time; the keys of the records that were
replaced stand in `lake.ops.replaced_records`. The next `trace_ingest` announces it, and `trace_marts` follows.

**Starts** by hand only: `start`, `end` and `dry_run`, which only says in the log what would change.

**Fails** when a time is none, or when other writers were first three times. Days that were done stay done.

**What to do**: read the log of `replay`; then clear the task. To do it twice does no harm: what comes out
the same is not touched.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Param, dag

from plugins.notifier import CALLBACKS
from spark_jobs.session import submit_conf
from spark_jobs.settings import PROJECT, Settings


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["tier-2", "ingest"],
    params={
        "start": Param(
            "", type="string", description="first store time, such as 2026-11-21 or 2026-11-21T08:30"
        ),
        "end": Param("", type="string", description="store time to stop before"),
        "dry_run": Param(True, type="boolean", description="only say what would change"),
    },
    default_args={
        "owner": "data-platform",
        "retries": 1,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(hours=12),
        **CALLBACKS,
    },
)
def trace_backfill() -> None:
    SparkSubmitOperator(
        task_id="replay",
        name="trace replay",
        application=str(PROJECT / "spark_jobs" / "replay.py"),
        application_args=[
            *(
                "--from",
                "{{ params.start }}",
                "--to",
                "{{ params.end }}",
                "--run-id",
                "{{ dag.dag_id }}/{{ run_id }}",
            ),
            "{{ '--dry-run' if params.dry_run else '--no-dry-run' }}",
        ],
        conn_id="spark_default",
        conf=submit_conf(Settings()),
        pool="lake_publish",
    )


trace_backfill()
