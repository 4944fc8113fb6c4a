"""What Java clients did is in the tables: subscriptions, progress, topics, clients; and nothing else happened anywhere."""

from __future__ import annotations

import time

import pytest

from spark_jobs.broker_facts.requests import GET_BROKER_CONFIG
from spark_jobs.lake import catalog
from spark_jobs.lake.tables import (
    ALL,
    BROKERS,
    CLIENT_HOSTS,
    CONSUMERS,
    GROUP_OFFSETS,
    GROUPS,
    OBSERVATIONS,
    PRODUCERS,
    SUBSCRIPTIONS,
    TOPIC_OFFSETS,
    TOPICS,
)
from spark_jobs.rocketmq.connection import Connection
from tests.broker_facts.clients import SECONDS
from tests.broker_facts.conftest import NO_PERIODS, SECRET, World
from tests.maintenance.files import holding

QUEUES = 4
SENT = 40


def queues_of(row: dict, *names: str) -> dict[int, list[int]]:
    return {queue["queue_id"]: [queue[name] for name in names] for queue in row["queues"]}


@pytest.fixture(scope="module")
def traffic(broker, java):
    """Two topics with messages of two tags, and the groups that read them; one of them has been stopped."""
    for topic in ("orders", "bills"):
        java("make_topic", topic=topic, address=broker.broker_address, queues=QUEUES)
        for tag in ("a", "b"):
            java("send", topic=topic, broker=broker.broker_name, tag=tag, queues=QUEUES, count=SENT // 2)
    java("consume", group="by-tag", tags={"orders": "a || c"})
    java("consume", group="by-sql", tags={}, sql={"bills": "number < 10"})
    java("consume", group="everything", tags={"orders": "*", "bills": "b"})
    java("consume", group="broadcast", tags={"orders": "*"}, broadcast=True)
    java("consume", group="stopped", tags={"bills": "*"})
    seen = {
        group: java("wait_for", group=group, count=count)
        for group, count in {
            "by-tag": 20,
            "by-sql": 20,
            "everything": 60,
            "broadcast": 40,
            "stopped": 40,
        }.items()
    }
    for group, topics in {"by-tag": 1, "by-sql": 1, "everything": 2, "stopped": 1}.items():
        java("wait_until_committed", group=group, queues=topics * QUEUES)
    yield seen
    for group in ("by-tag", "by-sql", "everything", "broadcast"):
        java("stop", group=group)


def test_subscriptions_and_clients(world: World, traffic, java):
    recorded = world.record()
    assert recorded.problems == []
    rows = [row for row in world.rows(SUBSCRIPTIONS) if row["topic"] in ("orders", "bills")]
    found = {
        (row["group_name"], row["topic"]): (row["expression_type"], row["expression"], row["tags"])
        for row in rows
    }
    assert found == {
        ("by-tag", "orders"): ("TAG", "a || c", ["a", "c"]),
        ("by-sql", "bills"): ("SQL92", "number < 10", []),
        ("everything", "orders"): ("TAG", "*", []),
        ("everything", "bills"): ("TAG", "b", ["b"]),
        ("broadcast", "orders"): ("TAG", "*", []),
        ("stopped", "bills"): ("TAG", "*", []),
    }
    (tagged,) = world.rows(CONSUMERS, group_name="by-tag")
    assert (tagged["online"], tagged["consume_type"], tagged["message_model"]) == (
        True,
        "CONSUME_PASSIVELY",
        "CLUSTERING",
    )
    assert (tagged["languages"], tagged["versions"], len(tagged["client_ids"])) == (["JAVA"], ["5.5.0"], 1)
    assert [row["message_model"] for row in world.rows(CONSUMERS, group_name="broadcast")] == ["BROADCASTING"]
    assert [row["host"] for row in world.rows(CLIENT_HOSTS)] == ["127.0.0.1"]
    (producer,) = world.rows(PRODUCERS, group_name="facts-producer")
    assert (producer["languages"], producer["versions"], producer["trace_of"]) == (["JAVA"], ["5.5.0"], None)

    java("stop", group="stopped")
    world.record()
    (offline,) = world.rows(CONSUMERS, group_name="stopped")
    assert (offline["online"], offline["message_model"], offline["client_ids"]) == (False, None, [])
    assert len(world.rows(CONSUMERS, current=False, group_name="stopped")) == 2
    assert [row["topic"] for row in world.rows(SUBSCRIPTIONS, group_name="stopped", topic="bills")] == [
        "bills"
    ]
    java("consume", group="stopped", tags={"bills": "*"})
    java("wait_for", group="stopped", count=0)
    world.record()
    assert len(world.rows(SUBSCRIPTIONS, current=False, group_name="stopped", topic="bills")) == 1
    java("stop", group="stopped")


def test_progress_is_what_the_consumers_did(world: World, broker, traffic, java):
    java("make_topic", topic="steps", address=broker.broker_address, queues=2)
    java("send", topic="steps", broker=broker.broker_name, tag="a", queues=2, count=20)
    java("consume", group="walker", tags={"steps": "*"})
    seen = java("wait_for", group="walker", count=20)
    java("stop", group="walker")  # commits its offsets
    world.record()
    (row,) = world.rows(GROUP_OFFSETS, group_name="walker", topic="steps")
    assert queues_of(row, "consumer_offset", "broker_offset") == {0: [10, 10], 1: [10, 10]}
    assert seen == {"steps/0": 10, "steps/1": 10}
    (ends,) = world.rows(TOPIC_OFFSETS, topic="steps")
    assert queues_of(ends, "min_offset", "max_offset") == {0: [0, 10], 1: [0, 10]}
    consumed_at = {queue["queue_id"]: queue["last_consumed_at"] for queue in row["queues"]}
    assert consumed_at == {queue["queue_id"]: queue["last_stored_at"] for queue in ends["queues"]}
    assert None not in consumed_at.values()

    java("send", topic="steps", broker=broker.broker_name, tag="a", queues=2, count=6)
    world.record()
    assert len(world.rows(GROUP_OFFSETS, current=False, group_name="walker", topic="steps")) == 1
    (ends,) = world.rows(TOPIC_OFFSETS, topic="steps")
    assert queues_of(ends, "max_offset") == {0: [13], 1: [13]}
    java("consume", group="walker", tags={"steps": "*"})
    java("wait_for", group="walker", count=6)
    java("stop", group="walker")
    world.record()
    first, second = world.rows(GROUP_OFFSETS, current=False, group_name="walker", topic="steps")
    assert first["valid_to"] == second["valid_from"]
    assert queues_of(second, "consumer_offset") == {0: [13], 1: [13]}
    for group in ("by-tag", "everything", "walker"):
        judged = {name: ends for name, ends in java("progress", group=group).items() if "%RETRY%" not in name}
        found = {
            f"{row['topic']}/{queue_id}": [ends[1], ends[0]]
            for row in world.rows(GROUP_OFFSETS, group_name=group)
            for queue_id, ends in queues_of(row, "consumer_offset", "broker_offset").items()
            if "%RETRY%" not in row["topic"]
        }
        assert found == judged


def test_topics_groups_and_the_broker(world: World, traffic):
    world.record("a run")
    (topic,) = world.rows(TOPICS, topic="orders")
    assert (topic["kind"], topic["read_queues"], topic["perm"]) == ("normal", QUEUES, 6)
    (retry,) = world.rows(TOPICS, topic="%RETRY%by-tag")
    assert (retry["kind"], retry["of_group"]) == ("retry", "by-tag")
    assert {row["kind"] for row in world.rows(TOPICS)} - {"dead_letter"} == {"normal", "retry", "system"}
    (group,) = world.rows(GROUPS, group_name="by-tag")
    assert (group["retry_max_times"], group["consume_enabled"]) == (16, True)
    (row,) = world.rows(BROKERS)
    assert (row["version"], row["role"], row["retention_hours"]) == ("5.5.0", "ASYNC_MASTER", 72)
    assert (row["sql_filter_enabled"], row["timer_enabled"], row["run_id"]) == (True, True, "a run")
    assert row["delay_levels"].startswith("1s 2s 1s")
    (observation,) = world.rows(OBSERVATIONS)
    assert (observation["reached"], observation["version"], observation["watermark"]) == (True, 513, None)
    assert observation["commit_log_max_offset"] > observation["commit_log_min_offset"] == 0
    assert {each["code"] for each in observation["requests"]} == {21, 26, 28, 43, 201, 202, 203, 328}
    assert all(each["unanswered"] == [] for each in observation["requests"])


def test_nothing_is_created(world: World, broker, traffic, java):
    before = java("names", address=broker.broker_address)
    for _ in range(2):
        world.record()
    assert java("names", address=broker.broker_address) == before


def test_no_secret_is_stored_or_printed(world: World, broker, traffic, capfd):
    with Connection(broker.broker_address) as connection:
        assert SECRET.encode() in connection.call(GET_BROKER_CONFIG, {}).body
    recorded = world.record()
    assert world.rows(BROKERS)
    assert holding(world.settings.home / "warehouse" / "broker_facts", SECRET) == []
    assert holding(world.settings.home / "warehouse" / "broker_facts", "ASYNC_MASTER") != []
    assert SECRET not in repr(recorded) + "".join(capfd.readouterr())


def wait_for_retry_offsets(world: World, *groups: str) -> None:
    """Clients assign the queue of a new retry topic with the next route, 30 s later, and commit its offset: a change."""
    until = time.monotonic() + SECONDS
    while True:
        world.record()
        rows = world.rows(GROUP_OFFSETS)
        missing = {*groups} - {row["group_name"] for row in rows if row["topic"].startswith("%RETRY%")}
        if not missing:
            return
        assert time.monotonic() < until, f"without a committed offset in the retry topic: {missing}"
        time.sleep(0.5)


def test_unchanged_facts_add_no_rows_and_the_state_stays_small(world: World, broker, traffic, java):
    wait_for_retry_offsets(world, "by-tag", "by-sql", "everything")
    before = world.everything()
    again = [world.record() for _ in range(3)]
    assert [each.rows for each in again] == [{OBSERVATIONS.name: 1}] * 3
    assert world.everything() == before
    java("make_topic", topic="growing", address=broker.broker_address, queues=1)
    for _ in range(12):
        java("send", topic="growing", broker=broker.broker_name, tag="a", queues=1, count=1)
        world.record()
    assert len(world.rows(TOPIC_OFFSETS, current=False, topic="growing")) >= 12
    for table in (each for each in ALL if each.name.startswith("broker_facts.") and each not in NO_PERIODS):
        scan = (
            catalog.lake(world.settings)
            .load_table(table.name)
            .scan(f"cluster = '{world.cluster.name}' and valid_to is null")
        )
        assert len(list(scan.plan_files())) == 1, table.name
