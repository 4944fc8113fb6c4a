"""What the brokers count and what is traced: real clients with and without trace, one hour of facts, and the marts over both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sandbox.broker import Sandbox
from spark_jobs.jobs.extract import extract
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.mart_build import dbt
from spark_jobs.mart_build.build import build_and_publish
from spark_jobs.mart_build.inputs import inputs_now
from spark_jobs.settings import Cluster
from tests import lakes
from tests.broker_facts.conftest import World
from tests.planning import only_models

TOPIC = "covered"
GROUPS = ("traced-group", "untraced-group")
TRACED, UNTRACED = 7, 4
PERIODS = (
    "topics",
    "topic_offsets",
    "groups",
    "group_offsets",
    "consumers",
    "subscriptions",
    "producers",
    "brokers",
)


@dataclass(frozen=True)
class Covered:
    """The rows of the two marts."""

    coverage: list[dict[str, Any]]
    clients: list[dict[str, Any]]
    hour: datetime


@pytest.fixture(scope="module")
def covered(facts_lake, broker: Sandbox, java, spark: SparkSession, catalog) -> Iterator[Covered]:
    lakes.empty(spark, facts_lake)
    tables.ensure(spark)
    world = World(facts_lake, Cluster(name="covered", namesrv=[broker.namesrv]))
    java("make_topic", topic=TOPIC, address=broker.broker_address, queues=2)
    start_with_offsets(java, broker)
    java("consume_traced", group="traced-group", topic=TOPIC)
    hour = hour_with_minutes_left(5)
    world.record("before")
    java("send_traced", group="traced-producer", topic=TOPIC, count=TRACED)
    send(java, broker, UNTRACED)
    for group in GROUPS:
        java("wait_for", group=group, count=TRACED + UNTRACED + (2 if group == "untraced-group" else 0))
        java("wait_until_committed", group=group, queues=2)
    world.record("after")
    java("stop_traced", group="traced-group")
    assert datetime.now(UTC).replace(tzinfo=None) < hour + timedelta(hours=1)
    move_to_the_bounds_of(hour, spark)
    publish.retry_on_conflict()(extract, spark, world.cluster, world.settings, "run")
    merge_all(spark, world.settings, "run")
    definitions = dbt.definitions(world.settings.limits, world.settings.home / "dbt")
    inputs = inputs_now(world.settings, read_offsets(spark, world.settings, tables.EVENTS), None, definitions)
    assert inputs is not None
    watermark = (hour + timedelta(hours=2)).replace(tzinfo=UTC)
    inputs = replace(inputs, watermarks={"covered": int(watermark.timestamp() * 1000)})
    with only_models("+trace_coverage", "+untraced_clients"):
        done = build_and_publish(spark, catalog, inputs, world.settings.home / "dbt")
    assert done.passed, (done.error, done.failures)
    marts = (spark.table(f"lake.marts.{name}").collect() for name in ("trace_coverage", "untraced_clients"))
    coverage, clients = ([row.asDict() for row in rows] for rows in marts)
    yield Covered(coverage, clients, hour)
    lakes.empty(spark, facts_lake)
    tables.ensure(spark)


def send(java, broker: Sandbox, count: int) -> None:
    """By a producer whose trace is off, to both queues."""
    java("send", topic=TOPIC, broker=broker.broker_name, tag="a", queues=2, count=count)


def start_with_offsets(java, broker: Sandbox) -> None:
    """Both groups have committed an offset in each queue, without a trace; the consumer of the first is stopped."""
    send(java, broker, 2)
    for group in GROUPS:
        java("consume", group=group, tags={TOPIC: "*"})
    for group in GROUPS:
        java("wait_for", group=group, count=2)
        java("wait_until_committed", group=group, queues=2)
    java("stop", group="traced-group")


def hour_with_minutes_left(minutes: int) -> datetime:
    """The present hour, or the next one if it ends within so many minutes."""
    now = datetime.now(UTC).replace(tzinfo=None)
    hour = now.replace(minute=0, second=0, microsecond=0)
    if now >= hour + timedelta(minutes=60 - minutes):
        hour += timedelta(hours=1)
        time.sleep((hour - now).total_seconds() + 1)
    return hour


def move_to_the_bounds_of(hour: datetime, spark: SparkSession) -> None:
    """Move the first collection to a minute before the hour, and the second to a minute before its end, instead of waiting."""
    first, second = hour - timedelta(minutes=1), hour + timedelta(minutes=59)
    (middle,) = spark.sql("select max(observed_at) from lake.broker_facts.observations").first()
    for table, columns in [
        ("observations", ["observed_at"]),
        *((name, ["valid_from", "valid_to"]) for name in PERIODS),
    ]:
        for column in columns:
            moved = f"case when {column} < timestamp '{middle}' then timestamp '{first}' else timestamp '{second}' end"
            spark.sql(f"update lake.broker_facts.{table} set {column} = {moved} where {column} is not null")


def test_the_brokers_count_all_messages_and_the_traces_those_of_traced_clients(covered: Covered):
    rows = {(row["side"], row["topic"], row["consumer_group"]): row for row in covered.coverage}
    counts = {
        key: (row["hour"], row["broker_messages"], row["traced"], row["unknown_reason"])
        for key, row in rows.items()
    }
    every = TRACED + UNTRACED
    assert counts == {
        ("producer", TOPIC, None): (covered.hour, every, TRACED, None),
        # Of the messages without a Pub the topic is that of the group.
        ("consumer", TOPIC, "traced-group"): (covered.hour, every, every, None),
        ("consumer", TOPIC, "untraced-group"): (covered.hour, every, 0, None),
    }


def test_connected_clients_without_a_trace_are_listed(covered: Covered):
    rows = {(row["side"], row["group_name"]): row for row in covered.clients}
    assert {("producer", "facts-producer"), ("consumer", "untraced-group")} <= rows.keys()
    assert {name for _, name in rows}.isdisjoint({"traced-group", "traced-producer", "CLIENT_INNER_PRODUCER"})
    consumer = rows["consumer", "untraced-group"]
    assert (consumer["topics"], consumer["languages"], consumer["versions"]) == ([TOPIC], ["JAVA"], ["5.5.0"])
    assert (consumer["clients"], consumer["tracing_clients"]) == (1, 0)
    assert (consumer["last_trace_at"], consumer["connected_since"]) == (
        None,
        covered.hour - timedelta(minutes=1),
    )
    assert rows["producer", "facts-producer"]["topics"] is None
