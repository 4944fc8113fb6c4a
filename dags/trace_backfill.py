"""Read messages again, or decode raw ones anew.

**Makes** the records of `lake.events.trace_records` anew for messages stored from `start` to before `end` (UTC). With
`what` = `replay` from raw, after a change of the decoder. With `reextract` the messages are first read from the brokers
again, and take the place of what raw has of them; what a broker no longer has stays. Only messages that come out
otherwise are touched; one commit a day of store time; the keys of the records that were replaced stand in
`lake.ops.replaced_records`. The next `trace_ingest` announces it, and `trace_marts` follows.

**Starts** by hand only: `what`, `start`, `end` and `dry_run`, which only says in the log what would change.

**Fails** when a time is none, a broker is away or its topic was made anew, or other writers were first three times. Days
that were done stay done.

**What to do**: read the log of the task that ran; then clear it. To do it twice does no harm: what comes out
the same is not touched.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Param, dag, task

from plugins.notifier import CALLBACKS
from spark_jobs.airflow_credentials import credentials
from spark_jobs.session import submit_conf
from spark_jobs.settings import PROJECT, Settings

SETTINGS = Settings()
ENVIRONMENT = {"reextract": {k: v for c in SETTINGS.clusters for k, v in credentials(c).items()}}


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["tier-2", "ingest"],
    params={
        "what": Param(
            "replay", enum=["replay", "reextract"], description="decode raw anew, or read the brokers again"
        ),
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
    @task.branch
    def chosen(params=None) -> str:  # type: ignore[no-untyped-def]
        """The task that the run was started for."""
        return params["what"]

    chosen() >> [
        SparkSubmitOperator(
            task_id=what,
            name=f"trace {what}",
            application=str(PROJECT / "spark_jobs" / f"{what}.py"),
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
            env_vars=ENVIRONMENT.get(what),
            conn_id="spark_default",
            conf=submit_conf(SETTINGS),
            pool="lake_publish",
        )
        for what in ("replay", "reextract")
    ]


trace_backfill()
