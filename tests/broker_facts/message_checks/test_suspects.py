"""Which messages of the published marts are looked up, and which not again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from spark_jobs.broker_facts.record import record
from spark_jobs.erasure.rules import Kind, Rule, digest, is_group_erased, is_message_erased
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import MESSAGE_CHECKS
from tests.broker_facts.conftest import World
from tests.broker_facts.message_checks import suspected
from tests.broker_facts.message_checks.conftest import TOPIC
from tests.broker_facts.message_checks.looked_up import checked, publish, states, with_limits
from tests.broker_facts.message_checks.suspected import failed, suspect


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
        of("of-a-batch", cause="untraced_batch"),
        of("rolled-back", cause="rolled_back"),
        of("in-flight", cause="in_flight", next_review_at=due_soon),
    )
    assert {row["consumer_group"] for row in rows} == {"due-soon", "an-orphan", "no-trace", "of-a-batch"}


def test_orphans_are_looked_up_before_untraced_consumers_and_these_before_batches(world: World, sent):
    untraced = {"reads-all": "untraced_batch", "pauses": "untraced_consumer"}
    suspects = [
        suspect(sent["last"], TOPIC, group, is_orphan=False, cause=cause) for group, cause in untraced.items()
    ]
    rows = checked(
        with_limits(world, checked_messages=2), *suspects, suspect(sent["first"], TOPIC, "gives-up")
    )
    assert {row["consumer_group"] for row in rows} == {"gives-up", "pauses"}


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
