"""Read messages again, or decode raw ones anew.

**Makes** the records of `lake.events.trace_records` anew for messages stored from `start` to before `end` (UTC). With
`what` = `replay` from raw, after a change of the decoder. With `reextract` the messages are first read from the brokers
again, and take the place of what raw has of them; what a broker no longer has stays. Only messages that come out
otherwise are touched; one commit a day of store time; the keys of the records that were replaced stand in
`lake.ops.replaced_records`. The next `trace_ingest` announces it, and `trace_marts` follows.

**Starts** by hand only: `what`, `start`, `end` and `dry_run`, which only says in the log what would change. For `reextract`
also `cluster`, to ask the brokers of one alone; or in place of times `queue`, `from_offset` and `to_offset`.

**Waits for**, and takes, the slot of the ingestion, which a merge every few minutes would otherwise make plan again
without end. So nothing is ingested meanwhile; what the checks find silent for that is held back
(`lake.ops.maintenance_windows`), `lag` and `retention_headroom` are not. Many days are better several runs.

**Fails** when a time is none, a broker is away or its topic was made anew, or other writers were first three times. Days
that were done stay done.

**What to do**: read the log of the task that ran. There are no retries: where an argument is wrong, start it anew;
else clear the task. To do it twice does no harm: what comes out the same is not touched.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Param, dag, task

from plugins.airflow_credentials import credentials
from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job
from spark_jobs.settings import Settings

SETTINGS = Settings()
ENVIRONMENT = {"reextract": {k: v for c in SETTINGS.clusters for k, v in credentials(c).items()}}
# Empty where the form was: not given.
TIMES = ["--from={{ params.start }}", "--to={{ params.end }}"]
ARGUMENTS = {
    "replay": TIMES,
    "reextract": [
        *TIMES,
        "--cluster={{ params.cluster }}",
        "--queue={{ params.queue }}",
        "--from-offset={{ '' if params.from_offset is none else params.from_offset }}",
        "--to-offset={{ '' if params.to_offset is none else params.to_offset }}",
    ],
}


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
        "cluster": Param("", type="string", description="reextract: its name in the settings; empty: all"),
        "queue": Param(
            "",
            type="string",
            description="reextract: <cluster>/<trace topic>/<broker>/<queue id>, with offsets",
        ),
        "from_offset": Param(
            None, type=["null", "integer"], minimum=0, description="reextract: first offset of that queue"
        ),
        "to_offset": Param(
            None, type=["null", "integer"], minimum=0, description="reextract: offset to stop before"
        ),
        "dry_run": Param(True, type="boolean", description="only say what would change"),
    },
    default_args={
        "owner": "data-platform",
        "retries": 0,
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
            application_args=[
                *ARGUMENTS[what],
                *("--run-id", "{{ dag.dag_id }}/{{ run_id }}"),
                "{{ '--dry-run' if params.dry_run else '--no-dry-run' }}",
            ],
            env_vars=ENVIRONMENT.get(what),
            **spark_job(what, pool="lake_publish"),
        )
        for what in ("replay", "reextract")
    ]


trace_backfill()
