"""What becomes of a suspected message is asked at its broker: where it is, and its state for each group."""

from __future__ import annotations

import base64
import ipaddress
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from sandbox.broker import TRACE_TOPIC, Sandbox, rocketmq
from spark_jobs.broker_facts import record as recording
from spark_jobs.broker_facts.record import record
from spark_jobs.erasure.rules import Kind, Rule, digest, is_group_erased, is_message_erased
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import MESSAGE_CHECKS, OBSERVATIONS
from spark_jobs.maintenance.table import maintain_table
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.settings import BrokerFacts, Cluster
from tests.broker_facts import suspected
from tests.broker_facts.clients import SECONDS
from tests.broker_facts.conftest import SECRET, World
from tests.broker_facts.suspected import failed, suspect
from tests.broker_facts.test_commits import publish_until
from tests.java_process import java_process
from tests.maintenance.files import holding
from tests.rocketmq.conftest import BUSY_MACHINE
from tests.rocketmq.java_client import run
from tests.rocketmq.test_access import ACL_CONF, ADMIN, READER

TOPIC = "checked"
BODY = "the-body-4711"
AT_ONCE = {"offsets_minutes": 0, "recheck_minutes": 0}


@pytest.fixture(scope="module", autouse=True)
def marts(spark, facts_lake) -> None:
    suspected.make(spark)


@pytest.fixture(scope="module")
def sent(broker: Sandbox, java) -> Iterator[dict[str, dict[str, Any]]]:
    """Two messages of a topic: the first one reached each group in another way, the last one not those that read no more."""
    java("make_topic", topic=TOPIC, address=broker.broker_address, queues=1)
    groups = {
        "reads-all": {"tags": {TOPIC: "*"}},
        "reads-b": {"tags": {TOPIC: "b"}},
        "reads-sql": {"tags": {}, "sql": {TOPIC: "number < 10"}},
        "pauses": {"tags": {TOPIC: "*"}},
        "stops": {"tags": {TOPIC: "*"}},
        "broadcasts": {"tags": {TOPIC: "*"}, "broadcast": True},
        "gives-up": {"tags": {TOPIC: "*"}, "fails": True, "most_retries": 0},
        "tries-again": {"tags": {TOPIC: "*"}, "fails": True, "most_retries": 1000, "retry_level": 18},
    }
    for group, given in groups.items():
        java("consume", group=group, **given)
    first = java("send_one", topic=TOPIC, tag="a", body=BODY)
    for group in ("reads-all", "pauses", "stops", "broadcasts", "gives-up", "tries-again"):
        java("wait_for", group=group, count=1)
    for group in groups.keys() - {"broadcasts"}:
        java("wait_until_committed", group=group, queues=1)
    java("suspend", group="pauses")
    java("stop", group="stops")
    java("send_one", topic=TOPIC, tag="a", body=BODY)  # the pull that waits at the broker still gets it
    java("wait_for", group="pauses", count=2)
    last = java("send_one", topic=TOPIC, tag="a", body=BODY)
    java("wait_for", group="reads-all", count=3)
    java("wait_until_committed", group="reads-all", queues=1)
    yield {"first": first, "last": last}
    for group in groups.keys() - {"stops"}:
        java("stop", group=group)


def with_limits(world: World, **limits: Any) -> World:
    facts = BrokerFacts(**AT_ONCE | limits)
    return World(world.settings.model_copy(update={"broker_facts": facts}), world.cluster)


def publish(world: World, *suspects: Any) -> None:
    if suspects:
        suspected.publish(lake(world.settings), world.cluster.name, list(suspects))


def checked(world: World, *suspects: Any) -> list[dict[str, Any]]:
    """The rows that a collection adds when the marts have these suspects, too."""
    publish(world, *suspects)
    before = len(world.rows(MESSAGE_CHECKS))
    recorded = world.record()
    rows = world.rows(MESSAGE_CHECKS)[before:]
    assert recorded.problems == []
    assert recorded.rows.get(MESSAGE_CHECKS.name, 0) == len(rows)
    return rows


def checked_until(world: World, delivered: dict[str, Any], *suspects: Any) -> dict[str, Any]:
    """The row of a message, looked up until it has these values."""
    publish(world, *suspects)
    until = time.monotonic() + SECONDS
    while True:
        (row,) = checked(world)
        if all(row[name] == value for name, value in delivered.items()):
            return row
        assert time.monotonic() < until, row
        time.sleep(0.5)


def states(rows: list[dict[str, Any]]) -> dict[str, str]:
    assert [row for row in rows if row["unknown_reason"]] == []
    return {row["consumer_group"]: row["state"] for row in rows}


def test_the_state_of_a_message_for_each_group(world: World, broker: Sandbox, sent):
    groups = {
        "reads-all": "consumed",
        "reads-b": "filtered",
        "reads-sql": "consumed_or_filtered",
        "pauses": "consumed",
        "stops": "consumed_or_filtered",  # what it subscribed to was never seen
        "broadcasts": "broadcasting",
        "gives-up": "dead_letter",
        "tries-again": "retrying",
        "never-seen": "offline",
    }
    rows = checked(world, *(suspect(sent["first"], TOPIC, group) for group in groups))
    assert states(rows) == groups
    (observed,) = world.rows(OBSERVATIONS)
    names = ("checked_at", "broker", "topic", "msg_id", "is_stored", "held_as", "tags", "due_at")
    expected = (
        observed["observed_at"],
        broker.broker_name,
        TOPIC,
        sent["first"]["msg_id"],
        True,
        None,
        "a",
        None,
    )
    for row in rows:
        assert tuple(row[name] for name in names) == expected
        assert (row["queue_id"], row["queue_offset"], row["is_of_batch"]) == (0, 0, False)
        assert abs(row["stored_at"].timestamp() - sent["first"]["sent_at"]) < SECONDS
    assert [row["consumer_offset"] for row in rows if row["consumer_group"] == "stops"] == [1]


def test_what_a_group_has_not_reached(world: World, sent):
    rows = checked(
        world, *(suspect(sent["last"], TOPIC, group) for group in ("reads-all", "pauses", "stops"))
    )
    assert states(rows) == {"reads-all": "consumed", "pauses": "not_consumed", "stops": "offline"}
    assert [row["consumer_offset"] for row in rows if row["consumer_group"] == "stops"] == [1]


def test_an_offline_group_is_judged_by_its_last_subscription_and_mode(world: World, sent, java):
    java("consume", group="was-filtering", tags={TOPIC: "b"})
    java("consume", group="was-broadcasting", tags={TOPIC: "*"}, broadcast=True)
    java("wait_for", group="was-broadcasting", count=0)
    world.record()
    for group in ("was-filtering", "was-broadcasting"):
        java("stop", group=group)
    groups = {"was-filtering": "filtered", "was-broadcasting": "broadcasting"}
    assert states(checked(world, *(suspect(sent["last"], TOPIC, group) for group in groups))) == groups


def test_a_group_that_reads_another_topic_is_offline_for_this_one(world: World, broker: Sandbox, java, sent):
    java("make_topic", topic="elsewhere", address=broker.broker_address, queues=1)
    java("consume", group="moved", tags={"elsewhere": "*"})
    try:
        assert states(checked(world, suspect(sent["last"], TOPIC, "moved"))) == {"moved": "offline"}
    finally:
        java("stop", group="moved")


def test_a_message_without_an_expected_group_is_judged_for_those_that_read_its_topic(world: World, sent):
    rows = checked(world, suspect(sent["last"], TOPIC, None))
    found = states(rows)
    assert {"reads-all": "consumed", "reads-b": "filtered", "pauses": "not_consumed"}.items() <= found.items()
    assert {"broadcasts", "stops"} <= found.keys()
    made_up = {**sent["last"], "msg_id": "3" * 32}
    (row,) = checked(world, suspect(made_up, "nobody-reads-it", None, is_traced=False))
    assert (row["consumer_group"], row["is_stored"], row["state"]) == (None, False, "unknown")


def test_a_message_whose_client_wrote_no_id_of_the_broker_is_found_by_its_key(world: World, sent):
    (row,) = checked(world, suspect(sent["first"], TOPIC, "reads-all", is_traced=False))
    assert (row["state"], row["queue_offset"], row["is_stored"]) == ("consumed", 0, True)


def test_the_tags_of_a_message_of_a_batch(world: World, java, sent):
    batched = java("send_one", topic=TOPIC, tag="b", batch=3)
    (row,) = checked(world, suspect(batched, TOPIC, "broadcasts", tag=None))
    assert (row["tags"], row["is_stored"], row["is_of_batch"]) == ("b", True, True)
    (only_b,) = checked(world, suspect(batched, TOPIC, "reads-sql", tag=None))
    assert only_b["queue_offset"] == row["queue_offset"]


def test_a_delayed_message_is_not_delivered_until_it_is_due(world: World, java, sent):
    world = with_limits(world)
    delayed = java("send_one", topic=TOPIC, tag="a", level=18)  # 10 s
    held = checked(world, suspect(delayed, TOPIC, "pauses"), suspect(delayed, TOPIC, "reads-b"))
    assert states(held) == {"pauses": "not_delivered", "reads-b": "filtered"}
    assert {(row["is_stored"], row["held_as"], row["queue_offset"], row["stored_at"]) for row in held} == {
        (True, "delay", None, None)
    }
    (due,) = {row["due_at"] for row in held}
    assert 9 < due.timestamp() - delayed["sent_at"] < SECONDS
    row = checked_until(world, {"state": "not_consumed"})
    assert (row["held_as"], row["due_at"], row["queue_id"]) == (None, due, 0)
    assert row["stored_at"] >= due
    assert row["queue_offset"] > 0


def test_a_timer_message_is_not_delivered_until_it_is_due(world: World, java, sent):
    late = java("send_one", topic=TOPIC, tag="a", timer_ms=3_600_000)
    for is_traced in (True, False):
        at = world.cluster.model_copy(update={"name": f"timer-{is_traced}"})
        (row,) = checked(World(world.settings, at), suspect(late, TOPIC, "pauses", is_traced=is_traced))
        assert (row["state"], row["held_as"], row["queue_offset"]) == ("not_delivered", "timer", None)
        assert 3590 < row["due_at"].timestamp() - late["sent_at"] < 3600 + SECONDS
    soon = java("send_one", topic=TOPIC, tag="a", timer_ms=2_000)
    delivered = checked_until(with_limits(world), {"state": "not_consumed"}, suspect(soon, TOPIC, "pauses"))
    assert 0 < delivered["due_at"].timestamp() - soon["sent_at"] < SECONDS
    assert delivered["held_as"] is None


def test_a_transactional_message_is_delivered_when_its_commit_has_reached_the_broker(
    world: World, java, sent
):
    world = with_limits(world)
    decided = {
        each: java("send_one", topic=TOPIC, tag="a", decision=each)
        for each in ("commit", "rollback", "unknown")
    }
    assert decided["commit"]["offset_msg_id"] is None
    row = checked_until(world, {"queue_id": 0}, suspect(decided["commit"], TOPIC, "pauses"))
    assert (row["state"], row["is_stored"]) == ("not_consumed", True)
    assert row["queue_offset"] > 0
    other = World(world.settings, world.cluster.model_copy(update={"name": "undecided"}))
    rows = checked(other, *(suspect(decided[each], TOPIC, f"of-{each}") for each in ("rollback", "unknown")))
    assert states(rows) == {"of-rollback": "not_delivered", "of-unknown": "not_delivered"}
    assert {(row["held_as"], row["is_stored"]) for row in rows} == {("transaction", True)}


def test_an_offset_that_was_set_over_a_message_passed_it(world: World, broker: Sandbox, java, sent):
    java("consume", group="skips", tags={TOPIC: "*"})
    java("wait_for", group="skips", count=2)
    world.record()
    java("stop", group="skips")
    skipped = java("send_one", topic=TOPIC, tag="a")
    suspects = [suspect(skipped, TOPIC, "skips")]
    row = checked_until(with_limits(world), {"state": "offline"}, *suspects)
    java("set_offset", group="skips", topic=TOPIC, broker=broker.broker_name, offset=row["queue_offset"] + 1)
    (row,) = checked(with_limits(world))
    assert (row["state"], row["consumer_offset"]) == ("consumed", row["queue_offset"] + 1)


def test_a_message_that_the_broker_never_had(world: World, broker: Sandbox, sent):
    made_up = {**sent["first"], "msg_id": "0" * 32}
    (row,) = checked(world, suspect(made_up, TOPIC, "reads-all"))
    assert (row["is_stored"], row["state"], row["unknown_reason"]) == (False, "unknown", None)
    assert row["broker"] == broker.broker_name


def test_a_message_of_a_broker_that_no_nameserver_knows_is_unknown(world: World, sent):
    away = {**sent["first"], "msg_id": "1" * 32, "offset_msg_id": "0A000001" + "00002A9F" + "0" * 16}
    by_host = {**away, "msg_id": "4" * 32}
    rows = checked(
        world,
        suspect(away, TOPIC, "reads-all"),
        suspect(by_host, TOPIC, "reads-all", is_traced=False, store_host="10.0.0.1:10911"),
    )
    names = ("broker", "is_stored", "state", "unknown_reason")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (None, None, "unknown", "not_registered")
    ] * 2


@pytest.fixture
def small(tmp_path, java) -> Iterator[tuple[Sandbox, Any]]:
    """A broker whose commit log has files of 1 MiB, and its clients."""
    conf = {**BUSY_MACHINE, "mappedFileSizeCommitLog": str(1 << 20)}
    with (
        rocketmq(tmp_path, extra_broker_conf=conf, stop_in_order=False) as sandbox,
        java_process("tests.broker_facts.clients", sandbox.namesrv, tmp_path / "java") as clients,
    ):
        yield sandbox, clients


def test_an_expired_message_is_not_stored_any_more(facts_lake, small):
    broker, java = small
    world = with_limits(World(facts_lake, Cluster(name="expiring", namesrv=[broker.namesrv])))
    java("make_topic", topic=TOPIC, address=broker.broker_address, queues=1)
    first = java("send_one", topic=TOPIC, tag="a")
    for _ in range(6):
        incompressible = base64.b64encode(os.urandom(500_000)).decode()
        java("send_one", topic=TOPIC, tag="a", body=incompressible)
    (row,) = checked(world, suspect(first, TOPIC, "g"))
    assert (row["is_stored"], row["state"]) == (True, "offline")
    java("expire", address=broker.broker_address)
    until = time.monotonic() + 2 * SECONDS  # it deletes files for the first time a minute after its start
    while not world.rows(OBSERVATIONS)[-1]["commit_log_min_offset"]:
        assert time.monotonic() < until, "the broker keeps its files"
        world.record()
    (row,) = world.rows(MESSAGE_CHECKS)[-1:]
    assert (row["is_stored"], row["state"], row["queue_offset"]) == (False, "unknown", None)
    assert checked(world) == [], "what is gone is not looked up again"
    log = "".join(file.read_text(errors="replace") for file in (broker.folder / "logs").rglob("*.log"))
    assert "can not find message by the offset" not in log


def test_a_refused_permission_is_unknown(facts_lake, tmp_path):
    with rocketmq(tmp_path, extra_broker_conf=ACL_CONF, stop_in_order=False) as guarded:
        admin = [ADMIN.access_key, ADMIN.secret_key]
        grant = {
            "do": "grant",
            "broker": guarded.broker_address,
            "admin": admin,
            "user": [READER.access_key, READER.secret_key],
            "resources": [f"Topic:{TRACE_TOPIC}", "Group:TOOLS_CONSUMER"],
        }
        produce = {
            "do": "produce",
            "topic": TRACE_TOPIC,
            "bodies": [base64.b64encode(BODY.encode()).decode()],
            "credentials": admin,
        }
        run(guarded.namesrv, tmp_path / "java", [grant, produce])
        with Client([guarded.namesrv], "c", ADMIN) as client:
            stored = client.message_at(client.queues(TRACE_TOPIC)[0], 0)
        host, port = guarded.broker_address.split(":")
        place = ipaddress.ip_address(host).packed + int(port).to_bytes(4, "big")
        sent = {
            "msg_id": stored.properties["UNIQ_KEY"],
            "offset_msg_id": (place + stored.physical_offset.to_bytes(8, "big")).hex(),
            "sent_at": stored.store_time / 1000,
        }
        world = World(facts_lake, Cluster(name="guarded", namesrv=[guarded.namesrv]))
        by_key = {**sent, "msg_id": "2" * 32}
        publish(world, suspect(sent, TRACE_TOPIC, "g"), suspect(by_key, "hidden", "g", is_traced=False))
        recorded = record(world.settings, world.cluster, "run", credentials=READER)
    rows = {row["msg_id"]: row for row in world.rows(MESSAGE_CHECKS)}
    assert recorded.rows[MESSAGE_CHECKS.name] == len(rows) == 2
    found, hidden = rows[sent["msg_id"]], rows[by_key["msg_id"]]
    assert (found["is_stored"], found["queue_offset"], found["state"]) == (True, 0, "offline")
    assert (hidden["is_stored"], hidden["state"], hidden["unknown_reason"]) == (None, "unknown", "refused")
    assert any("QUERY_MESSAGE" in each and "it needs Topic: Get" in each for each in recorded.problems)
    assert READER.secret_key not in repr(recorded)


def test_brokers_of_4_x_answer(facts_lake, old: str, tmp_path):
    """One of 4.5.2 has the message; the one of 4.9.7 knows the client's key and refuses it the topic."""
    topic = "of-4-5"
    with java_process("tests.broker_facts.clients", old, tmp_path) as java:
        with Client([old], "c") as client:
            (oldest,) = [each for each in client.registered_brokers() if each.name == "broker-oldest"]
        java("make_topic", topic=topic, address=oldest.addresses[0][1], queues=1)
        sent = java("send_one", topic=topic, tag="a")
        delayed = java("send_one", topic=topic, tag="a", level=18)
    world = World(facts_lake, Cluster(name="old", namesrv=[old]))
    publish(
        world,
        suspect(sent, topic, "g"),
        suspect(delayed, topic, "h"),
        suspect(sent, topic, "by-key", is_traced=False),
    )
    record(world.settings, world.cluster, "run", credentials=Credentials("any-valid-user", SECRET))
    rows = {row["consumer_group"]: row for row in world.rows(MESSAGE_CHECKS)}
    assert {group: (row["state"], row["is_stored"], row["broker"]) for group, row in rows.items()} == {
        "g": ("offline", True, "broker-oldest"),
        "h": ("not_delivered", True, "broker-oldest"),
        "by-key": ("offline", True, "broker-oldest"),
    }
    assert rows["h"]["held_as"] == "delay"
    assert rows["h"]["due_at"] is not None


def test_only_a_bounded_number_is_looked_up_newest_first_and_spread(world: World, sent):
    now = datetime.now(UTC)
    world = with_limits(world, checked_messages=4)

    def published(minutes: float, topic: str, group: str, tag: str = "a") -> Any:
        made = {**sent["last"], "msg_id": f"{topic}/{group}/{tag}/{minutes}"}
        at = now - timedelta(minutes=minutes)
        return suspect(made, topic, group, tag, is_traced=False, published_at=at)

    busy = [published(minutes, "busy", "g") for minutes in range(1, 31)]
    quiet = [published(60, "busy", "other"), published(90, "quiet", "g"), published(300, "busy", "g", "b")]
    old = published(25 * 60 + 60, "old", "g")
    rows = checked(world, *busy, *quiet, old)
    assert [row["msg_id"] for row in rows] == [
        "busy/g/a/1",
        "busy/other/a/60",
        "quiet/g/a/90",
        "busy/g/b/300",
    ]
    again = checked(with_limits(world, checked_messages=60, recheck_minutes=60))
    assert len(again) == 29, "what was looked up is left out, and what is older than a day"


def test_which_rows_of_the_marts_are_suspects(world: World, sent):
    due_soon = datetime.now(UTC) + timedelta(minutes=5)
    due_later = datetime.now(UTC) + timedelta(minutes=30)

    def of(group: str, **row: Any) -> Any:
        return suspect(sent["first"], TOPIC, group, **{"is_orphan": False, "cause": "within_grace", **row})

    rows = checked(
        world,
        of("due-soon", next_review_at=due_soon),
        of("due-later", next_review_at=due_later),
        of("an-orphan", cause="not_returned", is_orphan=True),
        of("no-trace", cause="untraced_consumer"),
        of("rolled-back", cause="rolled_back"),
        of("in-flight", cause="in_flight", next_review_at=due_soon),
    )
    assert {row["consumer_group"] for row in rows} == {"due-soon", "an-orphan", "no-trace"}


def test_orphans_are_looked_up_before_messages_of_untraced_consumers(world: World, sent):
    untraced = {"is_orphan": False, "cause": "untraced_consumer"}
    suspects = [suspect(sent["last"], TOPIC, group, **untraced) for group in ("reads-all", "pauses")]
    rows = checked(
        with_limits(world, checked_messages=2), *suspects, suspect(sent["first"], TOPIC, "gives-up")
    )
    assert len(rows) == 2
    assert "gives-up" in {row["consumer_group"] for row in rows}


def test_deliveries_that_are_exhausted_or_soon_are_suspects(world: World, sent):
    now = datetime.now(UTC)
    soon, later = now + timedelta(minutes=5), now + timedelta(minutes=30)

    def of(group: str, **row: Any) -> dict[str, Any]:
        return failed(sent["first"], TOPIC, group, **row)

    rows = [
        of("gives-up"),
        of("tries-again", outcome="retrying", next_review_at=soon),
        of("pauses", outcome="retrying", next_review_at=later),
        of("reads-all", outcome="succeeded"),
        of("broadcasts", is_broadcast=True),
        of("reads-b", published_at=now - timedelta(hours=26)),  # retried until now
        {**of("stops"), "topic": None},
    ]
    suspected.publish_deliveries(lake(world.settings), world.cluster.name, rows)
    first = checked(world)
    assert states(first) == {"gives-up": "dead_letter", "tries-again": "retrying"}
    assert {row["msg_id"] for row in first} == {sent["first"]["msg_id"]}
    again = checked(with_limits(world))
    assert states(again) == {"tries-again": "retrying"}, "a dead letter stays one"


def test_deliveries_and_orphans_share_the_bound(world: World, sent):
    orphans = [suspect(sent["first"], TOPIC, group) for group in ("reads-all", "pauses")]
    deliveries = [failed(sent["first"], TOPIC, group) for group in ("gives-up", "tries-again")]
    suspected.publish_deliveries(lake(world.settings), world.cluster.name, deliveries)
    assert len(checked(with_limits(world, checked_messages=3), *orphans)) == 3


def test_what_cannot_change_is_looked_up_once(world: World, sent):
    world = with_limits(world)
    groups = ("reads-all", "reads-b", "broadcasts", "gives-up", "pauses")
    assert len(checked(world, *(suspect(sent["last"], TOPIC, group) for group in groups))) == 5
    assert states(checked(world)) == {"pauses": "not_consumed"}
    assert checked(with_limits(world, recheck_minutes=60)) == []
    assert checked(with_limits(world, checked_messages=0)) == []


def test_nothing_is_created_and_no_body_is_stored(world: World, broker: Sandbox, java, sent):
    groups = ("reads-all", "reads-b", "stops", "gives-up", "never-seen", None)
    before = java("names", address=broker.broker_address)
    rows = checked(world, *(suspect(sent["first"], TOPIC, group) for group in groups))
    assert len(rows) > len(groups)
    assert java("names", address=broker.broker_address) == before
    warehouse = world.settings.home / "warehouse" / "broker_facts"
    assert holding(warehouse, BODY) == []
    assert holding(warehouse, sent["first"]["msg_id"]) != []


def test_nothing_is_looked_up_of_what_was_erased(world: World, sent):
    publish(world, suspect(sent["first"], TOPIC, "reads-all"), suspect(sent["last"], TOPIC, "reads-b"))
    publish(world, suspect(sent["last"], TOPIC, "pauses"), suspect(sent["last"], TOPIC, None))
    rules = [
        Rule(world.cluster.name, kind, "salt", digest("salt", text))
        for kind, text in ((Kind.MSG_ID, sent["first"]["msg_id"]), (Kind.GROUP, "reads-b"))
    ]
    record(
        world.settings,
        world.cluster,
        "run",
        lambda group: is_group_erased(rules, group),
        is_message_erased=lambda msg_id: is_message_erased(rules, msg_id),
    )
    rows = world.rows(MESSAGE_CHECKS)
    assert {row["msg_id"] for row in rows} == {sent["last"]["msg_id"]}
    groups = {row["consumer_group"] for row in rows}
    assert {"pauses", "reads-all"} <= groups
    assert "reads-b" not in groups


def test_checks_of_what_was_judged_already_are_dropped(world: World, sent, monkeypatch):
    """Another extraction of the cluster is published while the messages are looked up."""
    real = recording.check_suspects

    def late(*given: Any) -> Any:
        found = real(*given)
        assert found.rows
        publish_until(world, 3_000_000)
        return found

    publish(world, suspect(sent["last"], TOPIC, "pauses"))
    with monkeypatch.context() as patched:
        patched.setattr(recording, "check_suspects", late)
        recorded = world.record()
    assert recorded.superseded
    assert world.rows(MESSAGE_CHECKS) == []
    assert len(checked(world)) == 1


def test_two_collections_at_once_add_each_check_once(world: World, sent):
    publish(world, *(suspect(sent["first"], TOPIC, group) for group in ("reads-all", "reads-b", "gives-up")))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(world.record, ["one", "two", "three"]))
    assert sorted(row["consumer_group"] for row in world.rows(MESSAGE_CHECKS)) == [
        "gives-up",
        "reads-all",
        "reads-b",
    ]


def test_the_facts_stay_when_the_look_up_fails(world: World, sent, monkeypatch):
    def fails(*given: Any) -> None:
        raise RuntimeError("the marts cannot be read")

    monkeypatch.setattr(recording, "check_suspects", fails)
    recorded = world.record()
    (problem,) = recorded.problems
    assert "suspected messages: RuntimeError: the marts cannot be read" in problem
    assert len(world.rows(OBSERVATIONS)) == 1


def test_maintenance_drops_checks_after_their_retention(world: World, spark, sent):
    (row,) = checked(world, suspect(sent["last"], TOPIC, "pauses"))
    table = lake(world.settings).load_table(MESSAGE_CHECKS.name)
    old = [
        row | {"run_id": f"{days} days ago", "checked_at": row["checked_at"] - timedelta(days)}
        for days in (399, 402)
    ]
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    table.append(pa.Table.from_pylist(old, schema=schema))
    policy = world.settings.table_policy(MESSAGE_CHECKS.name)
    maintain_table(spark, world.settings, MESSAGE_CHECKS.name, policy, datetime.now(UTC), "maintenance")
    assert [row["run_id"] for row in world.rows(MESSAGE_CHECKS)] == ["399 days ago", "run"]
