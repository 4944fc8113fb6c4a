"""Trace messages from hosts from which no broker saw a client."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from spark_jobs.broker_facts.requests import (
    GET_ALL_PRODUCER_INFO,
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    GET_CONSUMER_CONNECTION_LIST,
)
from spark_jobs.checks.check import Measured, Run
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from tests.checks.world import NOW, TOPIC, add, ago

ASKED = (GET_ALL_PRODUCER_INFO, GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_CONSUMER_CONNECTION_LIST)


def answered(cluster: str, at: datetime, broker: str = "broker-a", refused: int | None = None) -> dict:
    """A collection of a broker's facts, with one request refused."""
    requests = [
        {
            "code": code,
            "name": str(code),
            "answered": int(code != refused),
            "refused": int(code == refused),
            **dict.fromkeys(("absent", "unsupported", "timed_out", "failed"), 0),
            "unanswered": [],
        }
        for code in ASKED
    ]
    return {"cluster": cluster, "broker": broker, "observed_at": at, "reached": True, "requests": requests}


def written(cluster: str, host: str, count: int, at: datetime) -> list[dict]:
    of_queue = {"trace_topic": TOPIC, "broker": "broker-a", "queue_id": 7, "epoch": 0, "ingested_at": NOW}
    return [
        of_queue
        | {"cluster": cluster, "queue_offset": n, "born_host": f"{host}:{4000 + n}", "store_time": at}
        for n in range(count)
    ]


def connected(cluster: str, host: str, valid_to: datetime | None = None) -> dict:
    return {
        "cluster": cluster,
        "broker": "broker-a",
        "host": host,
        "valid_from": ago(days=3),
        "valid_to": valid_to,
    }


@pytest.fixture(scope="module")
def measured(result, watched) -> dict[str, Measured]:
    """By cluster; the tables are as before afterwards."""
    used = (tables.RAW, tables.OBSERVATIONS, tables.CLIENT_HOSTS)
    catalog = lake(watched)
    before = {table: catalog.load_table(table.name).current_snapshot() for table in used}
    last = ago(minutes=10)
    add(
        watched,
        tables.RAW,
        [
            *written("honest", "10.0.0.1", 60, ago(minutes=30)),
            *written("honest", "10.0.0.2", 30, ago(minutes=20)),
            *written("honest", "10.0.0.9", 1000, ago(minutes=5)),  # perhaps connected since the collection
            *written("honest", "10.0.0.9", 1000, ago(minutes=80)),  # before the hour
            *written("forged", "10.0.0.1", 75, ago(minutes=30)),
            *written("forged", "10.0.0.9", 20, ago(minutes=30)),
            *written("forged", "10.0.0.3", 5, ago(minutes=30)),
            *written("small", "10.0.0.9", 19, ago(minutes=30)),
            *written("refused", "10.0.0.9", 100, ago(minutes=30)),
            *written("first", "10.0.0.9", 100, ago(minutes=30)),  # before the first collection
            *written("paused", "10.0.0.9", 100, ago(minutes=40)),  # collections paused then
            *written("paused", "10.0.0.1", 100, ago(minutes=20)),
        ],
    )
    add(
        watched,
        tables.OBSERVATIONS,
        [
            *(
                answered(cluster, last - number * timedelta(minutes=15))
                for cluster in ("honest", "forged", "small", "refused")
                for number in range(1, 6)
            ),
            *(answered(cluster, last) for cluster in ("honest", "forged", "small", "first")),
            answered("forged", ago(hours=3), refused=GET_ALL_PRODUCER_INFO),
            *(answered("paused", ago(minutes=minutes)) for minutes in (10, 25, 41, 50)),
            answered("refused", last),
            answered("refused", last, "broker-b", refused=GET_CONSUMER_CONNECTION_LIST),
        ],
    )
    add(
        watched,
        tables.CLIENT_HOSTS,
        [
            *(connected(cluster, "10.0.0.1") for cluster in ("honest", "forged", "refused", "paused")),
            connected("honest", "10.0.0.2", ago(hours=7)),  # a job that is connected now and then
            connected("forged", "10.0.0.3", ago(days=2)),
        ],
    )
    yield {each.entity: each for each in BY_NAME["unknown_writers"].measure(Run(watched, NOW, result))}
    for table, snapshot in before.items():
        if snapshot is None:
            result.sql(f"delete from {table.full_name}")
        else:
            call = f"call lake.system.rollback_to_snapshot('{table.full_name}', {snapshot.snapshot_id})"
            result.sql(call)


def test_hosts_of_clients_are_known(measured):
    assert measured["honest"].value == 0
    assert measured["honest"].verdict == "compare"


def test_the_others_are_counted_and_named(measured):
    assert measured["forged"].value == pytest.approx(0.25)
    assert measured["forged"].detail == (
        "25 of 100 trace messages were written from hosts without a known client: 10.0.0.9 (20), 10.0.0.3 (5)"
    )


def test_few_messages_are_not_judged(measured):
    assert (measured["small"].value, measured["small"].verdict) == (1, "pass")


def test_messages_are_judged_only_while_collections_were_regular(measured):
    """Clients that had gone before the first one, or while they paused, were not seen."""
    assert (measured["first"].value, measured["first"].verdict) == (0, "pass")
    assert (measured["paused"].value, measured["paused"].verdict) == (0, "compare")


def test_a_broker_that_does_not_say_who_is_connected_makes_it_unknown(measured):
    assert (measured["refused"].value, measured["refused"].verdict) == (None, "unknown")
