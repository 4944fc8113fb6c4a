"""Where a message is looked up, and what is unknown: expired, refused, of a broker that is not registered; brokers 4.x, too."""

from __future__ import annotations

import base64
import ipaddress
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.broker import TRACE_TOPIC, Sandbox, rocketmq
from spark_jobs.broker_facts.record import record
from spark_jobs.lake.tables import MESSAGE_CHECKS, OBSERVATIONS
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.settings import Cluster
from tests.broker_facts.clients import SECONDS
from tests.broker_facts.conftest import SECRET, World
from tests.broker_facts.message_checks.conftest import BODY, TOPIC
from tests.broker_facts.message_checks.looked_up import checked, publish, with_limits
from tests.broker_facts.message_checks.suspected import suspect
from tests.java_process import java_process
from tests.maintenance.files import holding
from tests.rocketmq.conftest import BUSY_MACHINE
from tests.rocketmq.java_client import run
from tests.rocketmq.test_access import ACL_CONF, ADMIN, READER


def test_a_message_whose_client_wrote_no_id_of_the_broker_is_found_by_its_key(world: World, sent):
    (row,) = checked(world, suspect(sent["first"], TOPIC, "reads-all", is_traced=False))
    assert (row["state"], row["queue_offset"], row["is_stored"]) == ("consumed", 0, True)


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


def test_nothing_is_created_and_no_body_is_stored(world: World, broker: Sandbox, java, sent):
    groups = ("reads-all", "reads-b", "stops", "gives-up", "never-seen", None)
    before = java("names", address=broker.broker_address)
    rows = checked(world, *(suspect(sent["first"], TOPIC, group) for group in groups))
    assert len(rows) > len(groups)
    assert java("names", address=broker.broker_address) == before
    warehouse = world.settings.home / "warehouse" / "broker_facts"
    assert holding(warehouse, BODY) == []
    assert holding(warehouse, sent["first"]["msg_id"]) != []
