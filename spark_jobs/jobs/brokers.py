"""What the jobs ask the brokers of a cluster, without Spark: which messages there are to read, and the broker facts."""

from __future__ import annotations

import time

from spark_jobs.broker_facts.record import record
from spark_jobs.erasure.rules import is_group_erased, is_message_erased, rules_of
from spark_jobs.ingest.plan import Plan, handle_missing_queues, plan
from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.jobs import report
from spark_jobs.lake.offsets import Positions, Queue
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.settings import Cluster, Settings


def planned(cluster: Cluster, settings: Settings, before: Positions, max_offsets: int) -> Plan:
    """Query the brokers and plan what to read of the cluster's trace topics; failures are in the plan."""
    with TopicSource(cluster, settings.extract) as source:
        queues: list[Queue] = []
        unreachable: dict[str, str] = {}
        for topic in cluster.topics:
            try:
                queues += source.queues(topic)
            except RocketMQError as error:
                unreachable[topic] = str(error)
        found = plan(
            source,
            queues,
            before,
            planned_at=int(time.time() * 1000),
            margin_ms=settings.extract.margin_seconds * 1000,
            max_offsets=max_offsets,
        )
    found.failures.update({f"{cluster.name}/{topic}": why for topic, why in unreachable.items()})
    handle_missing_queues(found, cluster, set(cluster.topics) - set(unreachable))
    return found


def record_facts(cluster: Cluster, settings: Settings, run_id: str) -> None:
    """Record the facts of the cluster's brokers if that is switched on, and print what was added and what is unknown."""
    if not settings.broker_facts.enabled or not cluster.broker_facts:
        return
    started = time.monotonic()
    try:
        rules = rules_of(settings, cluster.name)
        recorded = record(
            settings,
            cluster,
            run_id,
            lambda group: is_group_erased(rules, group),
            is_message_erased=lambda msg_id: is_message_erased(rules, msg_id),
        )
    except Exception as error:  # of any kind: the messages expire, the facts can be asked for again
        report.facts_failed(cluster.name, error)
    else:
        report.facts_recorded(cluster.name, recorded, time.monotonic() - started)
