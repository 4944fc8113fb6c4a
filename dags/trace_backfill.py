"""Replay raw messages, or re-extract messages from the brokers.

**Makes** the records in `lake.events.trace_records` of messages stored from `start` until `end` (UTC), again. `what=replay`
decodes the messages in raw again, after a change of the decoder. `what=reextract` first replaces them in raw with what the
brokers return now. Only rows that differ are changed, with one commit per day of store time. The keys of the replaced records
are written to `lake.ops.replaced_records`. The next `trace_ingest` announces the change, and `trace_marts` follows.

**Starts** only manually, with `what`, `start`, `end` and `dry_run`, which only logs what would change. `reextract` also takes
`cluster`, to read one cluster only; or `queue`, `from_offset` and `to_offset` instead of times.

**Waits for** the pool slot of the ingestion and holds it; otherwise each merge would be a commit conflict. Nothing is ingested
meanwhile. The freshness alerts that this would cause are silenced (`lake.ops.maintenance_windows`); `lag` and
`retention_headroom` are not. Split many days into several runs.

**Fails** on an invalid timestamp, an unreachable broker, a recreated topic, or after three commit conflicts. Days that were
committed stay committed.

**What to do**: read the log of the task that ran. There are no retries. If an argument is wrong, start a new run; otherwise
clear the task. It is idempotent.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import Param, dag, task

from plugins.airflow_credentials import credentials
from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job
from plugins.submit_operator import ClientModeOperator
from spark_jobs.settings import Settings

SETTINGS = Settings()
ENVIRONMENT = {"reextract": {k: v for c in SETTINGS.clusters for k, v in credentials(c).items()}}
# An empty field of the form is an empty argument: not given.
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
            "replay",
            enum=["replay", "reextract"],
            description="replay: decode raw again; reextract: read the brokers again",
        ),
        "start": Param(
            "", type="string", description="first store time, such as 2026-11-21 or 2026-11-21T08:30"
        ),
        "end": Param("", type="string", description="store time to stop before"),
        "cluster": Param(
            "", type="string", description="reextract: name of a cluster in the settings; empty: all clusters"
        ),
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
        "dry_run": Param(True, type="boolean", description="only log what would change"),
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
        """The id of the task to run."""
        return params["what"]

    chosen() >> [
        ClientModeOperator(
            task_id=what,
            application_args=[
                *ARGUMENTS[what],
                "--run-id={{ dag.dag_id }}/{{ run_id }}",
                "{{ '--dry-run' if params.dry_run else '--no-dry-run' }}",
            ],
            env_vars=ENVIRONMENT.get(what),
            **spark_job(what, pool="lake_publish"),
        )
        for what in ("replay", "reextract")
    ]


trace_backfill()
