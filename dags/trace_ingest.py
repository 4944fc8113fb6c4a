"""Read new messages of the trace topics, decode them, and publish them as `lake.events.trace_records`.

**Makes** rows of `lake.broker_facts.*` and `lake.raw.trace_messages` for all clusters side by side, and of
`lake.events.trace_records`, in one Spark job; and checks raw and events. With `schedules.marts_with_ingest`, the job builds the
marts of few new records, too, as `trace_marts` does, unless that is paused. New records update the Asset
`lake.events.trace_records`, which starts `trace_marts`. If nothing is new, no Spark job is started: the watermarks advance.

**Starts** when a cluster has `freshness.messages` unread messages or its oldest one is `freshness.seconds` old, for which the
triggerer asks the brokers, and on a timer, which also advances the watermarks of queues without new messages.

**Fails** in the task `extracted` of a cluster if a broker or nameserver is unreachable or rejects the credentials, if a topic
was deleted and recreated, or if a queue cannot be read to its end. The other queues and clusters are read and merged; the
next run retries.

A failure to build the marts is only in the log here; `trace_marts` meets it again, and fails.

**What to do**: the failed task `extracted` says why. It names cluster, topic, broker, queue and offsets, and the remedy.
It is safe to clear a task or to run the DAG again: each run starts at the last committed offsets.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import (
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronTriggerTimetable,
    Metadata,
    Variable,
    XComArg,
    dag,
    task,
)
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from plugins.airflow_credentials import credentials
from plugins.idle_operator import IngestOperator
from plugins.notifier import CALLBACKS
from plugins.spark_job import spark_job
from plugins.trace_watcher import NewTraceMessagesTrigger
from spark_jobs.settings import Settings

SETTINGS = Settings()
SCHEDULES = SETTINGS.schedules
RECORDS = Asset("lake.events.trace_records")
# The Airflow Variable with the last announced change_seq of `RECORDS`.
ANNOUNCED = "rocketmq_trace_announced_change_seq"
MESSAGES = Asset(
    "rocketmq.trace_messages",
    watchers=[
        AssetWatcher(
            name=cluster.name,
            trigger=NewTraceMessagesTrigger(
                cluster.name,
                min_messages=SETTINGS.freshness.messages,
                max_age=SETTINGS.freshness.seconds,
                poll_interval=SCHEDULES.poll_seconds,
            ),
        )
        for cluster in SETTINGS.clusters
        if SCHEDULES.poll_seconds
    ],
)


@dag(
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(SCHEDULES.ingest, timezone="UTC", run_immediately=True),
        assets=[MESSAGES],
    ),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["tier-1", "ingest"],
    default_args={
        "owner": "data-platform",
        "retries": 2,
        # No other run starts meanwhile.
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "execution_timeout": timedelta(hours=1),
        **CALLBACKS,
    },
)
def trace_ingest() -> None:
    ingest = IngestOperator(
        task_id="ingest",
        idle_job="spark_jobs.jobs.advance_ingest",
        application_args=["--run-id", "{{ dag.dag_id }}/{{ run_id }}"],
        with_marts_of="trace_marts" if SCHEDULES.marts_with_ingest else None,
        env_vars={
            name: value for cluster in SETTINGS.clusters for name, value in credentials(cluster).items()
        },
        **spark_job("ingest", pool="lake_publish"),
    )

    @task(outlets=[RECORDS])
    def announce():  # type: ignore[no-untyped-def]
        """Update the Asset if records were published since the last time; that starts `trace_marts`.

        What was announced is in a Variable: Airflow cannot list the events of an Asset while a run that one created is queued.
        """
        # Airflow parses this file also for tasks that need none of it.
        from spark_jobs.lake.catalog import summary_with
        from spark_jobs.lake.offsets import CHANGE_SEQ
        from spark_jobs.lake.tables import EVENTS

        last = int(Variable.get(ANNOUNCED, default="0"))
        now = int(summary_with(Settings(), EVENTS, CHANGE_SEQ).get(CHANGE_SEQ, 0))
        if now == last:
            raise AirflowSkipException(f"no new records: change_seq {now} was announced")
        yield Metadata(RECORDS, extra={"change_seq": now})
        Variable.set(ANNOUNCED, str(now))

    @task(map_index_template="{{ task.op_kwargs['cluster'] }}")
    def extracted(cluster: str, failures: dict[str, list[str]]) -> None:
        """Fail if the cluster, or queues of it, could not be read."""
        if reasons := failures.get(cluster):
            raise AirflowFailException("\n".join(reasons))

    ingest >> announce()
    extracted.partial(failures=XComArg(ingest, key="failures")).expand_kwargs(
        [{"cluster": each.name} for each in SETTINGS.clusters]
    )


trace_ingest()
