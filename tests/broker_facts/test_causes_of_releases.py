"""Causes of orphaned messages of Java clients of three releases and of the Go client, on a broker of 4.9 with ACL, judged by the
clients' own diary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sandbox.broker import TRACE_TOPIC, Sandbox
from sandbox.releases import BY_VERSION, NEWEST
from spark_jobs.checks.check import Result
from spark_jobs.lake import tables
from spark_jobs.settings import Cluster, Settings
from tests import lakes
from tests.broker_facts import go_process
from tests.broker_facts.conftest import SECRET
from tests.broker_facts.warehouse import Warehouse, settings_at_once
from tests.client_process import ClientProcess
from tests.faults.client.old_broker import BROKER, broker_4_9
from tests.java_process import java_process

WARM_UP, LATER = "warm-up", "later"
NOT_DUE_LEVEL = 18  # 2 h by default
APPLICATION, READER, ADMIN = "application-key", "warehouse-key", "administrator-key"
ACL = f"""
globalWhiteRemoteAddresses: []
accounts:
- {{accessKey: {APPLICATION}, secretKey: {SECRET}, admin: false, defaultTopicPerm: PUB|SUB, defaultGroupPerm: PUB|SUB}}
- {{accessKey: {READER}, secretKey: {SECRET}, admin: false, defaultTopicPerm: SUB, defaultGroupPerm: SUB}}
- {{accessKey: {ADMIN}, secretKey: {SECRET}, admin: true}}
"""
# Spark's workers have the environment that the session started with.
os.environ |= {"OLD_ACCESS_KEY": READER, "OLD_SECRET_KEY": SECRET}
# Consumer groups of each release, each of the topic of its name.
GROUPS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("plain", "turned-off", "stopped", "jumped")},
    "tag-filter": {"tags": f"{WARM_UP} || a"},
}
STOPPED = ["turned-off", "stopped", "jumped"]
# Case to the group, the message, and the cause and evidence; None: the message has no row.
CASES: dict[str, tuple[str, dict[str, Any], tuple[str, str] | None]] = {
    "sent": ("plain", {"tag": "a"}, None),
    "delayed": ("plain", {"tag": "a", "level": NOT_DUE_LEVEL}, ("delayed_not_due", "inferred")),
    "of the tag": ("tag-filter", {"tag": "a"}, None),
    "of another tag": ("tag-filter", {"tag": "b"}, ("filtered", "proven")),
    "consumed without trace": ("turned-off", {"tag": "a"}, ("untraced_consumer", "inferred")),
    "in the backlog": ("stopped", {"tag": "a"}, ("in_backlog", "proven")),
    "skipped": ("jumped", {"tag": "a"}, ("skipped", "proven")),
}
# Consumers from 5.3.1 on trace no message without a region, which brokers of 4.x do not write: their groups are not expected.
UNTRACED = NEWEST.version
GO = f"go-{go_process.release()}"
CONSUMED = {"sent": "plain", "of the tag": "tag-filter", "consumed without trace": "turned-off"}


@dataclass(frozen=True)
class Judged:
    """What the clients did, and what the marts say.

    Attributes:
        versions: of the clients.
        missing: version of a client that cannot run here, to what it needs.
        cases: message id to its release and case.
        diary: release, consumer group and message id of each call of a listener.
        rows: of `orphaned_messages`.
        alerts: entity to its result of the check `orphans_proven`.
    """

    versions: list[str]
    missing: dict[str, str]
    cases: dict[str, tuple[str, str]]
    diary: set[tuple[str, str, str]]
    rows: list[dict[str, Any]]
    alerts: dict[str | None, Result]


@pytest.fixture(scope="module")
def judged(facts_lake: Settings, spark: SparkSession, catalog, tmp_path_factory) -> Iterator[Judged]:
    lakes.empty(spark, facts_lake)
    tables.ensure(spark)
    folder = tmp_path_factory.mktemp("releases")
    for name in ("namesrv/tmp", "broker", "state"):
        (folder / name).mkdir(parents=True)
    nameserver = Sandbox(folder / "namesrv")
    nameserver.nameserver.start()
    try:
        cluster = Cluster(name="old", namesrv=[nameserver.namesrv], credentials_env="OLD")
        warehouse = Warehouse(spark, catalog, settings_at_once(facts_lake), cluster)
        with ExitStack() as stack:
            address = stack.enter_context(broker_4_9(folder / "broker", nameserver.namesrv, ACL))
            clients = {
                version: stack.enter_context(
                    java_process(
                        "tests.broker_facts.release_clients", nameserver.namesrv, folder / version, version
                    )
                )
                for version in BY_VERSION
            }
            missing = {}
            try:
                program = go_process.build(folder)
                clients[GO] = stack.enter_context(
                    go_process.go_process(program, nameserver.namesrv, folder / GO)
                )
            except go_process.MissingError as error:
                missing[GO] = str(error)
            cases = traffic(clients, address, warehouse)
            warehouse.run()
            asked_at = warehouse.record()
            warehouse.run(asked_at + timedelta(seconds=1))
            diary = {
                (version, group, msg_id)
                for version, client in clients.items()
                for group, msg_id, _ in client("consumed")
            }
            yield Judged(list(clients), missing, cases, diary, warehouse.rows(), warehouse.alerts())
    finally:
        nameserver.nameserver.kill()
        lakes.empty(spark, facts_lake)
        tables.ensure(spark)


def traffic(
    clients: dict[str, ClientProcess], address: str, warehouse: Warehouse
) -> dict[str, tuple[str, str]]:
    """Message id to its release and case."""
    names = [name_of(group, version) for group in GROUPS for version in clients]
    clients[NEWEST.version]("make_topics", topics=names, address=address, access_key=ADMIN, secret_key=SECRET)
    cases = {}
    for version, client in clients.items():
        client("trace_to", topic=TRACE_TOPIC)
        client("log_in", access_key=APPLICATION, secret_key=SECRET)
        for group, given in GROUPS.items():
            name = name_of(group, version)
            client("start_group", group=name, topic=name, **given)
            cases |= dict.fromkeys(client("write", topic=name, tag=WARM_UP), (version, WARM_UP))
    for version, client in clients.items():
        client("wait_until_consumed", pairs=[(name_of(group, version), 1) for group in GROUPS])
    warehouse.record()
    for version, client in clients.items():
        client("stop_groups", groups=[name_of(group, version) for group in STOPPED])
        untraced = name_of("turned-off", version)
        client("start_group", group=untraced, topic=untraced, traced=False)
    warehouse.record()
    for version, client in clients.items():
        for case, (group, message, _) in CASES.items():
            cases |= dict.fromkeys(client("write", topic=name_of(group, version), **message), (version, case))
    for version, client in clients.items():
        client("wait_until_consumed", pairs=[(name_of(group, version), 2) for group in CONSUMED.values()])
        client("flush")
    warehouse.record()
    for version, client in clients.items():
        jumped = name_of("jumped", version)
        clients[NEWEST.version]("set_offset", group=jumped, topic=jumped, broker=BROKER, offset=2)
        # They commit what they consumed.
        client("stop_groups", groups=[name_of(group, version) for group in CONSUMED.values()])
    warehouse.record()
    for (
        version,
        client,
    ) in clients.items():  # a broker of 4.x has no pull offset: that it was a reset shows when they come back
        jumped = name_of("jumped", version)
        client("start_group", group=jumped, topic=jumped)
        cases |= dict.fromkeys(client("write", topic=jumped, tag="a"), (version, LATER))
    for version, client in clients.items():
        client("wait_until_consumed", pairs=[(name_of("jumped", version), 2)])
        client("flush")
        client("stop_groups", groups=[name_of("jumped", version)])
    warehouse.record()
    return cases


def name_of(group: str, version: str) -> str:
    return f"{group}-of-{version.replace('.', '-')}"


def test_the_diary_has_what_the_cases_say(judged: Judged):
    given = {
        (version, group, judged.cases[msg_id][1])
        for version, group, msg_id in judged.diary
        if judged.cases[msg_id][1] not in (WARM_UP, LATER)
    }
    assert given == {
        (version, name_of(group, version), case)
        for version in judged.versions
        for case, group in CONSUMED.items()
    }


@pytest.mark.parametrize("version", [*BY_VERSION, GO])
def test_each_message_without_a_trace_has_its_cause_and_evidence(judged: Judged, version: str):
    if version in judged.missing:
        pytest.skip(f"NO TEST OF THE GO CLIENT: {judged.missing[version]}")
    found: dict[str, set[tuple[str, str]]] = {}
    for row in judged.rows:
        of_version, case = judged.cases[row["msg_id"]]
        if of_version == version:
            found.setdefault(case, set()).add((row["cause"], row["evidence"]))
    expected = {case: {verdict} for case, (*_, verdict) in CASES.items() if verdict}
    if version == GO:  # it names every message normal, so only the look-up shows the delay
        expected["delayed"] = {("delayed_not_due", "proven")}
    if version == UNTRACED:
        read_untraced = {("untraced_consumer", "inferred")}
        expected = {case: read_untraced for case in (WARM_UP, LATER, *CASES)} | {
            "delayed": expected["delayed"],
            "of another tag": {("no_traced_group", "unknown")},
        }
    assert found == expected


def test_only_losses_count_in_the_orphan_rate_and_raise_an_alert(judged: Judged):
    orphans = {judged.cases[row["msg_id"]] for row in judged.rows if row["counts_in_orphan_rate"]}
    traced = set(judged.versions) - {UNTRACED}
    assert orphans == {(version, "skipped") for version in traced}
    failed = {entity for entity, result in judged.alerts.items() if result.passed is False}
    names = [name_of("jumped", version) for version in traced]
    assert failed == {f"old/{name}/{name}" for name in names}
