"""The state of a message for each group of real clients."""

from __future__ import annotations

from sandbox.broker import Sandbox
from spark_jobs.lake.tables import OBSERVATIONS
from tests.broker_facts.clients import SECONDS
from tests.broker_facts.conftest import NOT_DUE_LEVEL, World
from tests.broker_facts.message_checks.conftest import TOPIC
from tests.broker_facts.message_checks.looked_up import checked, checked_until, states, with_limits
from tests.broker_facts.message_checks.suspected import suspect


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


def test_the_tags_of_a_message_of_a_batch(world: World, java, sent):
    batched = java("send_one", topic=TOPIC, tag="b", batch=3)
    (row,) = checked(world, suspect(batched, TOPIC, "broadcasts", tag=None))
    assert (row["tags"], row["is_stored"], row["is_of_batch"]) == ("b", True, True)
    (only_b,) = checked(world, suspect(batched, TOPIC, "reads-sql", tag=None))
    assert only_b["queue_offset"] == row["queue_offset"]


def test_a_delayed_message_is_not_delivered_until_it_is_due(world: World, java, sent):
    late = java("send_one", topic=TOPIC, tag="a", level=NOT_DUE_LEVEL)  # 1 h
    other = World(world.settings, world.cluster.model_copy(update={"name": "not-due"}))
    held = checked(other, suspect(late, TOPIC, "pauses"), suspect(late, TOPIC, "reads-b"))
    assert states(held) == {"pauses": "not_delivered", "reads-b": "filtered"}
    assert {(row["is_stored"], row["held_as"], row["queue_offset"], row["stored_at"]) for row in held} == {
        (True, "delay", None, None)
    }
    (due,) = {row["due_at"] for row in held}
    assert 3590 < due.timestamp() - late["sent_at"] < 3600 + SECONDS
    soon = java("send_one", topic=TOPIC, tag="a", level=4)  # 2 s
    row = checked_until(with_limits(world), {"state": "not_consumed"}, suspect(soon, TOPIC, "pauses"))
    assert (row["held_as"], row["queue_id"]) == (None, 0)
    assert 1 < row["due_at"].timestamp() - soon["sent_at"] < SECONDS
    assert row["stored_at"] >= row["due_at"]
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
