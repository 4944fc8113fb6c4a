"""Causes of orphaned messages, judged by the diary of real clients: ordinary use is explained, and each loss is found.

The same traffic is a cluster whose brokers were asked and one whose brokers were not (`broker_facts.enabled = false`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sandbox.broker import Sandbox
from spark_jobs.checks.check import Result
from spark_jobs.lake import tables
from spark_jobs.lake.tables import OBSERVATIONS
from spark_jobs.settings import Cluster, Settings
from tests import lakes
from tests.broker_facts.conftest import NOT_DUE_LEVEL, World
from tests.broker_facts.warehouse import Warehouse, settings_at_once

TRACE = "causes-trace"
ASKED, NOT_ASKED = "asked", "not-asked"
WARM_UP, HOUR_MS, SOON_MS = "warm-up", 3_600_000, 8_000
# The limit for delays, s, so that a longer delay is overdue. Consumers that start after those messages commit 10 s later.
MAX_DELAY = 5
OVERDUE = ("delayed", "timer", "recalled, traced", "recalled, not traced", "recalled, then due")
# Sent one collection earlier than the others.
EARLY = (*OVERDUE, "dropped by the program")
# Consumer groups, each of the topic of its name, as they run while the first message of their topic is consumed.
GROUPS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("plain", "turned-off", "stopped", "jumped", "deleted", "stuck", "given-up")},
    **{name: {} for name in ("visiting", "visiting-traced", "visited", "some-traced", "partly-jumped")},
    "changing": {"tags": f"{WARM_UP} || a"},
    "tag-filter": {"tags": f"{WARM_UP} || a"},
    "sql-filter": {"sql": "number < 10"},
    "broadcasting": {"clients": 2},
    "retrying": {"fails": True, "retry_level": NOT_DUE_LEVEL},
    "dropping": {"drops": "dropped"},
}
VISITING = ["visiting", "visiting-traced"]  # they run again between two collections only
STOPPED = [
    "turned-off",
    "stopped",
    "jumped",
    "partly-jumped",
    "deleted",
    "stuck",
    "given-up",
    "changing",
    *VISITING,
]
QUEUES = {"some-traced": 2, "visited": 2, "partly-jumped": 2}
# Those that start without trace: again, or beside the one that writes a trace.
UNTRACED: dict[str, dict[str, Any]] = {
    "turned-off": {},
    "stuck": {"fails": True, "retry_level": NOT_DUE_LEVEL},
    "given-up": {"fails": True, "most_retries": 0},
    "some-traced": {},
}
# Case to the group and the message that is sent to the topic of its name.
SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "sent": ("plain", {"tag": "a"}),
    "delayed": ("plain", {"tag": "a", "level": NOT_DUE_LEVEL}),
    "timer": ("plain", {"tag": "a", "timer_ms": HOUR_MS}),
    "recalled, traced": ("plain", {"tag": "a", "timer_ms": HOUR_MS, "recall": "traced"}),
    "recalled, not traced": ("plain", {"tag": "a", "timer_ms": HOUR_MS, "recall": "untraced"}),
    "recalled, then due": ("plain", {"tag": "a", "timer_ms": SOON_MS, "recall": "untraced"}),
    "batch": ("plain", {"tag": "a", "batch": 3}),
    "batch of one": ("plain", {"tag": "a", "batch": 1}),
    "batch of one, by tag": ("tag-filter", {"tag": "a", "batch": 1}),
    "sent twice": ("plain", {"tag": "a", "times": 2}),
    "of the tag": ("tag-filter", {"tag": "a"}),
    "of another tag": ("tag-filter", {"tag": "b"}),
    "of the condition": ("sql-filter", {"tag": "a", "number": 9}),
    "not of the condition": ("sql-filter", {"tag": "a", "number": 10}),
    "to all clients": ("broadcasting", {"tag": "a"}),
    "in retry, traced": ("retrying", {"tag": "a"}),
    "in retry, not traced": ("stuck", {"tag": "a"}),
    "consumed without trace": ("turned-off", {"tag": "a"}),
    "in the backlog": ("stopped", {"tag": "a"}),
    "skipped": ("jumped", {"tag": "a"}),
    "batch, skipped": ("jumped", {"tag": "a", "batch": 2}),
    "skipped in one queue": ("partly-jumped", {"tag": "a", "queue": 0}),
    "in the backlog of the other queue": ("partly-jumped", {"tag": "a", "queue": 1}),
    "consumed without trace between two collections": ("visiting", {"tag": "a"}),
    "batch of one between two collections": ("visiting-traced", {"tag": "a", "batch": 1}),
    "consumed, some without trace": ("some-traced", {"tag": "a"}),
    "consumed by a visitor without trace": ("visited", {"tag": "a"}),
    "of a tag of before": ("changing", {"tag": "a"}),
    "of a deleted group": ("deleted", {"tag": "a"}),
    "dropped by the program": ("dropping", {"tag": "dropped"}),
    "dropped by the program again": ("dropping", {"tag": "dropped"}),
    "dead letter": ("given-up", {"tag": "a"}),
}
# Case to cause and evidence, where the brokers were asked. The other cases have no row.
EXPLAINED = {
    "delayed": ("delayed_not_due", "proven"),
    "timer": ("delayed_not_due", "proven"),
    "recalled, traced": ("recalled", "proven"),
    "recalled, not traced": ("recalled", "proven"),
    "recalled, then due": ("recalled", "proven"),
    "batch": ("untraced_batch", "inferred"),
    "batch of one": ("untraced_batch", "inferred"),
    "batch of one, by tag": ("filter_unknown", "unknown"),
    "of another tag": ("filtered", "proven"),
    "not of the condition": ("filter_unknown", "unknown"),
    "in retry, not traced": ("retrying", "proven"),
    "consumed without trace": ("untraced_consumer", "inferred"),
    "consumed without trace between two collections": ("untraced_consumer", "inferred"),
    "batch of one between two collections": ("untraced_batch", "inferred"),
    "consumed, some without trace": ("untraced_consumer", "inferred"),
    "of a tag of before": ("filter_unknown", "unknown"),
    "in the backlog": ("in_backlog", "proven"),
    "in the backlog of the other queue": ("in_backlog", "proven"),
}
LOST = {
    "skipped": ("skipped", "proven"),
    "batch, skipped": ("skipped", "proven"),
    "skipped in one queue": ("skipped", "proven"),
    "dropped by the program": ("passed_untraced", "proven"),
    "dropped by the program again": ("passed_untraced", "proven"),
    "dead letter": ("dead_letter", "proven"),
}
# Consumed. The brokers answer as for a dropped message, so it is an orphan with evidence `inferred` (docs/definitions.md).
DOUBTFUL = {"consumed by a visitor without trace": ("passed_untraced", "inferred")}
# Lost, too, but who deletes a group gives its backlog up: no orphan (docs/definitions.md).
GIVEN_UP = {"of a deleted group": ("group_deleted", "proven")}


@dataclass(frozen=True)
class Judged:
    """What the clients did, and what the marts say.

    Attributes:
        cases: message id to its case.
        diary: consumer group, message id and whether the listener returned success, of each call.
        rows: cluster to its rows of `orphaned_messages`.
        dead_letters: cluster to the proven dead letters: case, consumer group and traced attempts.
        broadcast: cluster to the broadcast groups of deliveries, and whether the brokers said so.
        alerts: entity to its result of the check `orphans_proven`.
        observations: clusters whose brokers were asked.
    """

    cases: dict[str, str]
    diary: list[tuple[str, str, bool]]
    rows: dict[str, list[dict[str, Any]]]
    dead_letters: dict[str, list[tuple[str, str, int]]]
    broadcast: dict[str, set[tuple[str, bool]]]
    alerts: dict[str | None, Result]
    observations: set[str]

    def causes(self, cluster: str) -> dict[str, set[tuple[str, str]]]:
        """Case to the causes and their evidence."""
        found: dict[str, set[tuple[str, str]]] = {}
        for row in self.rows[cluster]:
            found.setdefault(self.cases[row["msg_id"]], set()).add((row["cause"], row["evidence"]))
        return found

    def orphans(self, cluster: str) -> set[str]:
        return {self.cases[row["msg_id"]] for row in self.rows[cluster] if row["is_orphan"]}


@pytest.fixture(scope="module")
def judged(facts_lake: Settings, broker: Sandbox, java, spark: SparkSession, catalog) -> Iterator[Judged]:
    lakes.empty(spark, facts_lake)
    tables.ensure(spark)
    settings = settings_at_once(facts_lake, max_delay_seconds=MAX_DELAY)
    asked, not_asked = (
        Cluster(name=name, namesrv=[broker.namesrv], trace_topics=[TRACE]) for name in (ASKED, NOT_ASKED)
    )
    warehouse = Warehouse(spark, catalog, settings, asked, not_asked)
    cases = traffic(java, broker, warehouse)
    warehouse.run()
    asked_at = warehouse.record()
    warehouse.run(asked_at + timedelta(seconds=1))
    rows, clusters = warehouse.rows(), warehouse.clusters
    dead_letters = spark.table("lake.marts.dead_letters").where("evidence = 'proven'").collect()
    broadcast = spark.sql(
        """
        select distinct cluster, consumer_group, broadcast_from > timestamp '1970-01-01 00:00:00' as is_said
        from lake.marts.fct_deliveries
        inner join lake.intermediate.int_broadcast_groups using (cluster, consumer_group)
        where is_broadcast and first_attempt_at >= broadcast_from and first_attempt_at < broadcast_to
        """
    ).collect()
    yield Judged(
        cases,
        [tuple(call) for call in java("consumed")],
        {each.name: [row for row in rows if row["cluster"] == each.name] for each in clusters},
        {
            each.name: [
                (cases[row.msg_id], row.consumer_group, row.attempts)
                for row in dead_letters
                if row.cluster == each.name
            ]
            for each in clusters
        },
        {
            each.name: {(row.consumer_group, row.is_said) for row in broadcast if row.cluster == each.name}
            for each in clusters
        },
        warehouse.alerts(),
        {each.name for each in clusters if World(settings, each).rows(OBSERVATIONS)},
    )
    java("stop_all")
    lakes.empty(spark, facts_lake)
    tables.ensure(spark)


def traffic(java, broker: Sandbox, warehouse: Warehouse) -> dict[str, str]:
    """Message id to its case."""
    for topic in (TRACE, *GROUPS):
        java("make_topic", topic=topic, address=broker.broker_address, queues=QUEUES.get(topic, 1))
    java("trace_to", topic=TRACE)
    for group, given in GROUPS.items():
        java("start_group", group=group, topic=group, **given)
    cases = {}
    for topic in GROUPS:
        for queue in range(QUEUES.get(topic, 1)):
            cases |= dict.fromkeys(java("write", topic=topic, tag=WARM_UP, queue=queue), WARM_UP)
    clients = {group: QUEUES.get(group, given.get("clients", 1)) for group, given in GROUPS.items()}
    java("wait_until_consumed", pairs=list(clients.items()))
    warehouse.record()
    for case in EARLY:
        topic, message = SENT[case]
        cases |= dict.fromkeys(java("write", topic=topic, **message), case)
    java("stop_groups", groups=STOPPED)
    for group, given in UNTRACED.items():
        java("start_group", group=group, topic=group, traced=False, **given)
    java("wait_until_shared", group="some-traced")
    for group in ("plain", "tag-filter", "sql-filter", "retrying", "dropping"):
        java("wait_until_committed", group=group, queues=1)
    warehouse.record()

    java("start_group", group="visited", topic="visited", traced=False)
    java("wait_until_shared", group="visited")
    for case, (topic, message) in SENT.items():
        if case in EARLY:
            continue
        for _ in range(4 if topic in ("some-traced", "visited") else 1):
            cases |= dict.fromkeys(java("write", topic=topic, **message), case)
    # Each group goes on with its work: what it did not consume before this was not in its way.
    for topic in GROUPS.keys() - {*STOPPED, *QUEUES, "retrying"}:
        cases |= dict.fromkeys(java("write", topic=topic, tag="a"), "later")
    cases |= dict.fromkeys(java("write", topic="changing", tag="b"), "later")
    java("start_group", group="changing", topic="changing", tags="b")
    for group in VISITING:
        java("start_group", group=group, topic=group, traced=group != "visiting")
    expected = {
        **{"plain": 2 + 3 + 1 + 2, "tag-filter": 3, "sql-filter": 2, "broadcasting": 2 * 2, "dropping": 1},
        **{"retrying": 1, "turned-off": 1, "stuck": 1, "given-up": 1, "some-traced": 4, "visited": 4},
        **{"changing": 1},
        **dict.fromkeys(VISITING, 1),
    }
    java("wait_until_consumed", pairs=[[group, clients[group] + count] for group, count in expected.items()])
    for group in expected.keys() - {"broadcasting"}:
        java("wait_until_committed", group=group, queues=QUEUES.get(group, 1))
    java("stop_groups", groups=VISITING)
    java("stop_newest", group="visited")
    cases |= dict.fromkeys(java("write", topic="visited", tag="a"), "later")  # the client with trace goes on
    java("wait_until_consumed", pairs=[["visited", clients["visited"] + 4 + 1]])
    java("wait_until_committed", group="visited", queues=QUEUES["visited"])
    java("flush")
    warehouse.record()
    for group, offset in (("jumped", 4), ("partly-jumped", 2)):
        java("set_offset", group=group, topic=group, broker=broker.broker_name, offset=offset)
    java("delete_group", group="deleted", address=broker.broker_address)
    warehouse.record()
    return cases


def test_the_diary_has_what_the_cases_say(judged: Judged):
    """The judge itself: who was given which message, by the clients that sent and consumed."""
    given = {(judged.cases[msg_id], group, succeeded) for group, msg_id, succeeded in judged.diary}
    assert {
        ("sent", "plain", True),
        ("batch", "plain", True),
        ("batch of one", "plain", True),
        ("batch of one, by tag", "tag-filter", True),
        ("sent twice", "plain", True),
        ("of the tag", "tag-filter", True),
        ("of the condition", "sql-filter", True),
        ("to all clients", "broadcasting", True),
        ("in retry, traced", "retrying", False),
        ("in retry, not traced", "stuck", False),
        ("consumed without trace", "turned-off", True),
        ("consumed without trace between two collections", "visiting", True),
        ("batch of one between two collections", "visiting-traced", True),
        ("consumed, some without trace", "some-traced", True),
        ("consumed by a visitor without trace", "visited", True),
        ("dead letter", "given-up", False),
    } == {each for each in given if each[0] not in (WARM_UP, "later")}
    never_given = SENT.keys() - {case for case, *_ in given}
    without_trace = EXPLAINED.keys() | LOST.keys() | DOUBTFUL.keys() | GIVEN_UP.keys()
    given_without_trace = {
        *("batch", "batch of one", "batch of one, by tag", "consumed without trace"),
        *("in retry, not traced", "dead letter", "consumed, some without trace"),
        *DOUBTFUL,
        *("consumed without trace between two collections", "batch of one between two collections"),
    }
    assert never_given == without_trace - given_without_trace


def test_each_message_without_a_trace_has_its_cause_and_evidence(judged: Judged):
    expected = {**EXPLAINED, **LOST, **DOUBTFUL, **GIVEN_UP}
    assert judged.causes(ASKED) == {case: {verdict} for case, verdict in expected.items()}


def test_orphans_are_the_losses_and_what_cannot_be_distinguished_from_them(judged: Judged):
    assert judged.orphans(ASKED) == LOST.keys() | DOUBTFUL.keys()


def test_no_other_message_that_a_listener_consumed_is_an_orphan(judged: Judged):
    consumed = {(group, msg_id) for group, msg_id, succeeded in judged.diary if succeeded}
    orphans = {(row["expected_group"], row["msg_id"]) for row in judged.rows[ASKED] if row["is_orphan"]}
    assert {judged.cases[msg_id] for _, msg_id in consumed & orphans} == DOUBTFUL.keys()


def test_the_dead_letter_of_a_client_without_trace_is_found_by_its_look_up(judged: Judged):
    assert judged.dead_letters == {ASKED: [("dead letter", SENT["dead letter"][0], 0)], NOT_ASKED: []}


def test_a_group_broadcasts_where_the_brokers_say_so(judged: Judged):
    assert judged.broadcast[ASKED] >= {("broadcasting", True)}
    assert {group for group, _ in judged.broadcast[ASKED]} == {"broadcasting"}
    # The records of both clients name one client: they are in one process.
    assert judged.broadcast[NOT_ASKED] == set()


def test_the_alert_names_the_losses(judged: Judged):
    failed = {entity for entity, result in judged.alerts.items() if result.passed is False}
    assert failed == {f"{ASKED}/{SENT[case][0]}/{SENT[case][0]}" for case in LOST}


def test_without_broker_facts_nothing_is_proven_and_no_critical_alert_is_raised(judged: Judged):
    assert judged.observations == {ASKED}
    of_cluster = [
        result for entity, result in judged.alerts.items() if entity and entity.startswith(f"{NOT_ASKED}/")
    ]
    assert of_cluster
    assert {result.passed for result in of_cluster} == {True}
    causes = judged.causes(NOT_ASKED)
    assert causes.pop("recalled, traced") == {("recalled", "proven")}  # its trace says so
    assert {evidence for found in causes.values() for _, evidence in found} == {"inferred", "unknown"}
    # What is of a batch is never expected to have a record.
    assert LOST.keys() - {"batch, skipped"} <= judged.orphans(NOT_ASKED)
