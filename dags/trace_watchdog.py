"""Look after the other DAGs, without Spark and whatever became of them.

**Makes** the freshness checks (`lake.ops.check_results`): how long ago ingest and marts published, how far they are
behind the clock; then, when people are told of that, what waits at the brokers and how soon these delete it. Sends
again to Alertmanager what is open in `lake.ops.alerts`, and to every sink what could not be delivered before. If all
went well it asks `alerts.heartbeat_url`: the dead-man's switch outside tells people when that stays away.

**Fails** when its checks cannot be made or booked, or a sink or the switch does not answer. It has then told the
sinks that do, as alert `watchdog`; its state stands in `$TRACE_HOME/watchdog`.

**What to do**: docs/runbooks/watchdog.md. By hand: `make watchdog`.
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
    # No retry: the next run comes soon, and is the better one.
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
