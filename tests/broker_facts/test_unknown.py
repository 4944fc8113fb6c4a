"""What cannot be asked is unknown, not absent: a refused permission, an old release, a broker that is away or does not answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sandbox.broker import TRACE_TOPIC, Sandbox, rocketmq
from spark_jobs.broker_facts import collect as collecting
from spark_jobs.broker_facts.collect import Collection, collect
from spark_jobs.broker_facts.requests import OF_BROKER
from spark_jobs.lake.tables import (
    BROKERS,
    CONSUMERS,
    GROUPS,
    OBSERVATIONS,
    PRODUCERS,
    SUBSCRIPTIONS,
    TOPIC_OFFSETS,
    TOPICS,
    Table,
)
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.settings import BrokerFacts
from tests.broker_facts.conftest import SECRET, World
from tests.faults.client.old_broker import BROKER as OLD_BROKER
from tests.rocketmq.java_client import run
from tests.rocketmq.test_access import ACL_CONF, ADMIN, READER

ASKER = Credentials("asker", "asker-secret-4711")
UNKNOWN = ("refused", "unsupported", "timed_out", "failed")


def asked(
    namesrv: str,
    credentials: Credentials | None = None,
    timeout: float = 5,
    removed: Iterable[str] = (),
    **limits: float,
) -> Collection:
    with Client([namesrv], "c", credentials, timeout=timeout) as client:
        return collect(
            client, BrokerFacts(**limits), datetime.now(UTC), is_removed=lambda broker: broker in removed
        )


def rows(found: Collection, table: Table, broker: str) -> list[dict]:
    return [row for row in found.found[table.name].rows if row["broker"] == broker]


def observation(found: Collection, broker: str) -> dict:
    (row,) = [each for each in found.observations if each["broker"] == broker]
    return row


def unknown(found: Collection, broker: str) -> dict[tuple[int, str], int]:
    requests = observation(found, broker)["requests"]
    return {(each["code"], status): each[status] for each in requests for status in UNKNOWN if each[status]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A broker of 5.5.0 with ACL, on which `reader` may read the trace topic and nothing else."""
    folder = tmp_path_factory.mktemp("acl")
    with rocketmq(folder, extra_broker_conf=ACL_CONF, stop_in_order=False) as sandbox:
        grant = {
            "do": "grant",
            "broker": sandbox.broker_address,
            "admin": [ADMIN.access_key, ADMIN.secret_key],
            "user": [READER.access_key, READER.secret_key],
            "resources": [f"Topic:{TRACE_TOPIC}", "Group:TOOLS_CONSUMER"],
        }
        everything = ["Topic:*", "Group:*", "Cluster:*"]  # docs/broker_facts.md
        asker = {**grant, "user": [ASKER.access_key, ASKER.secret_key], "resources": everything}
        run(sandbox.namesrv, folder / "java", [grant, asker])
        yield sandbox


@pytest.mark.parametrize("credentials", [ADMIN, ASKER], ids=["super user", "may get"])
def test_who_may_everything_is_answered_everything(guarded: Sandbox, credentials: Credentials):
    found = asked(guarded.namesrv, credentials)
    assert (unknown(found, guarded.broker_name), found.problems) == ({}, [])
    assert rows(found, CONSUMERS, guarded.broker_name)
    assert rows(found, BROKERS, guarded.broker_name)
    assert credentials.secret_key not in repr(found)
    logs = [file.read_text(errors="replace") for file in (guarded.folder / "logs").rglob("*.log")]
    assert logs
    assert not any("Failed field" in text for text in logs), (
        "an error in the broker's log for each collection"
    )


def test_a_refused_permission_makes_its_facts_unknown_and_no_others(guarded: Sandbox):
    found = asked(guarded.namesrv, READER)
    groups = [row["group_name"] for row in rows(found, GROUPS, guarded.broker_name)]
    assert {"TOOLS_CONSUMER"} < set(groups)
    assert [row["group_name"] for row in rows(found, CONSUMERS, guarded.broker_name)] == ["TOOLS_CONSUMER"]
    assert rows(found, PRODUCERS, guarded.broker_name) == []
    assert unknown(found, guarded.broker_name) == {(203, "refused"): len(groups) - 1, (328, "refused"): 1}
    (counts,) = [r for r in observation(found, guarded.broker_name)["requests"] if r["code"] == 203]
    assert counts["unanswered"] == sorted(set(groups) - {"TOOLS_CONSUMER"})
    (problem,) = found.problems
    assert "GET_CONSUMER_CONNECTION_LIST" in problem
    assert "it needs Group: Get" in problem
    assert "it needs Cluster: Get" in problem
    assert READER.secret_key not in problem
    assert not found.found[CONSUMERS.name].is_gone((guarded.broker_name, groups[0]))
    assert not found.found[PRODUCERS.name].is_gone((guarded.broker_name, "any"))


def test_a_wrong_secret_makes_everything_unknown(guarded: Sandbox):
    found = asked(guarded.namesrv, Credentials("admin", "wrong-secret-4711"))
    assert not any(each.rows for each in found.found.values())
    assert observation(found, guarded.broker_name)["reached"]
    assert set(unknown(found, guarded.broker_name)) == {
        (code, "refused") for code in (21, 26, 28, 43, 201, 328)
    }
    assert "wrong-secret-4711" not in repr(found)
    keys = {BROKERS: (), TOPICS: ("t",), GROUPS: ("g",), SUBSCRIPTIONS: ("g", "t")}
    for table, key in keys.items():
        assert not found.found[table.name].is_gone((guarded.broker_name, *key)), table.name


def test_any_valid_user_of_the_acl_of_4_x_is_answered(old: str):
    found = asked(old, Credentials("any-valid-user", SECRET))
    assert unknown(found, OLD_BROKER) == {}
    assert [row["version"] for row in rows(found, BROKERS, OLD_BROKER)] == ["4.9.7"]
    assert rows(found, CONSUMERS, OLD_BROKER)
    assert rows(found, TOPIC_OFFSETS, OLD_BROKER) == []
    assert SECRET not in repr(found)


def test_a_wrong_signature_is_refused_by_the_acl_of_4_x(old: str):
    found = asked(old, Credentials("any-valid-user", "wrong-secret-4711"))
    assert set(unknown(found, OLD_BROKER)) == {(code, "refused") for code in (21, 26, 28, 43, 201, 328)}
    assert "wrong-secret-4711" not in repr(found)


def test_a_request_that_an_old_broker_does_not_know_is_not_sent(old: str):
    """A broker before 4.9.1 would not answer at all."""
    started = time.monotonic()
    found = asked(old, Credentials("any-valid-user", SECRET), timeout=60)
    assert time.monotonic() - started < 20
    expected = {(328, "unsupported"): 1}
    # In its first seconds it may answer 28 with code 1.
    assert unknown(found, "broker-oldest") in (expected, {(28, "failed"): 1, **expected})
    (row,) = rows(found, BROKERS, "broker-oldest")
    assert (row["version"], row["role"], row["timer_enabled"]) == ("4.5.2", "ASYNC_MASTER", None)
    assert observation(found, "broker-oldest")["version"] == 317
    assert rows(found, GROUPS, "broker-oldest")
    assert all(row["orderly"] is None for row in rows(found, GROUPS, "broker-oldest"))
    assert {row["online"] for row in rows(found, CONSUMERS, "broker-oldest")} == {False}
    assert not found.found[PRODUCERS.name].is_gone(("broker-oldest", "any"))


def test_lists_of_more_than_a_page_are_complete(broker: Sandbox, monkeypatch: pytest.MonkeyPatch):
    at_once = asked(broker.namesrv)
    fields = {21: {"topicSeq": "0", "maxTopicNum": "3"}, 201: {"groupSeq": "0", "maxGroupNum": "2"}}
    small = [replace(each, fields=fields.get(each.code, {})) for each in OF_BROKER]
    monkeypatch.setattr(collecting, "OF_BROKER", small)
    found = asked(broker.namesrv)
    counts = {each["code"]: each["answered"] for each in observation(found, broker.broker_name)["requests"]}
    assert (counts[21], counts[201], counts[43]) == (2, 2, 1)
    for table in (TOPICS, GROUPS):
        assert rows(found, table, broker.broker_name) == rows(at_once, table, broker.broker_name)
        assert len(rows(found, table, broker.broker_name)) > 3


def test_a_broker_that_does_not_answer_in_time_keeps_its_facts(world: World, broker: Sandbox):
    world.record()
    before = world.everything()
    os.kill(broker.broker_pid, signal.SIGSTOP)
    try:
        slow = world.settings.model_copy(update={"broker_facts": BrokerFacts(timeout_seconds=0.3)})
        recorded = World(slow, world.cluster).record()
    finally:
        os.kill(broker.broker_pid, signal.SIGCONT)
    assert recorded.rows == {OBSERVATIONS.name: 1}
    (problem,) = recorded.problems
    assert "did not answer within 0.3 s" in problem
    first, last = world.rows(OBSERVATIONS)
    assert (first["reached"], last["reached"], last["version"]) == (True, False, None)
    assert world.everything() == before


def test_after_the_deadline_nothing_is_waited_for(broker: Sandbox):
    found = asked(broker.namesrv, deadline_seconds=1e-9)
    assert set(unknown(found, broker.broker_name)) == {(28, "timed_out")}
    assert "deadline" in found.problems[0]


def test_a_broker_that_is_away_keeps_its_facts(guarded: Sandbox, monkeypatch: pytest.MonkeyPatch):
    """A nameserver removes it at once if its connection breaks, else two minutes after its last heartbeat."""
    name = guarded.broker_name
    with Client([guarded.namesrv], "c", ADMIN) as client:
        registered = client.registered_brokers()
    guarded.broker.kill()
    while asked(guarded.namesrv, ADMIN).observations:
        time.sleep(0.1)
    gone = asked(guarded.namesrv, ADMIN)
    assert gone.found[BROKERS.name].is_gone((name,))
    assert not gone.found[TOPICS.name].is_gone((name, "t"))
    removed = asked(guarded.namesrv, ADMIN, removed=[name])
    assert all(each.is_gone((name, "t")) for each in removed.found.values())
    with monkeypatch.context() as patched:
        patched.setattr(Client, "registered_brokers", lambda _: registered)
        away = asked(guarded.namesrv, ADMIN)
    assert not observation(away, name)["reached"]
    assert not any(each.rows for each in away.found.values())
    assert not away.found[BROKERS.name].is_gone((name,)), "it is still registered"
    assert "no connection" in away.problems[0]
