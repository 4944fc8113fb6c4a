"""Watch the other DAGs independently of them, without starting Spark.

**Makes** the freshness checks (`lake.ops.check_results`): how long ago ingest and marts published, and how far they are behind
the clock. After these alerts are sent, it checks consumer lag and retention headroom on the brokers. It resends the open alerts
of `lake.ops.alerts` to Alertmanager, and retries undelivered notifications to every sink. If all of that succeeded, it requests
`alerts.heartbeat_url`: an external dead-man's switch alerts if the heartbeat is missing.

**Fails** if its checks cannot be run or saved, or if a sink or the dead-man's switch does not answer. It has then notified the
sinks that answer with the alert `watchdog`, whose state is in `$TRACE_HOME/watchdog`. A dead-man's switch that does not answer is
part of that alert from the second time in a row on.

**What to do**: docs/runbooks/watchdog.md. Run it manually with `make watchdog`.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag

from plugins.airflow_credentials import credentials
from spark_jobs.settings import PROJECT, Settings

SETTINGS = Settings()


@dag(
    schedule=timedelta(seconds=SETTINGS.alerts.interval_seconds),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["tier-1", "alerts"],
    # No retries: the next run starts soon.
    default_args={
        "owner": "data-platform",
        "retries": 0,
        "execution_timeout": timedelta(minutes=4),
    },
)
def trace_watchdog() -> None:
    BashOperator(
        task_id="watch",
        bash_command=f'{sys.executable} -m spark_jobs.jobs.watchdog --run-id "$RUN_ID"',
        cwd=str(PROJECT),
        env={"RUN_ID": "{{ dag.dag_id }}/{{ run_id }}"}
        | {name: value for each in SETTINGS.clusters for name, value in credentials(each).items()},
        append_env=True,
    )


trace_watchdog()
