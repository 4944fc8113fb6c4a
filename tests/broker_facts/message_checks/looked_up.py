"""Publish suspects, and look them up by a collection."""

from __future__ import annotations

import time
from typing import Any

from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import MESSAGE_CHECKS
from spark_jobs.settings import BrokerFacts
from tests.broker_facts.clients import SECONDS
from tests.broker_facts.conftest import World
from tests.broker_facts.message_checks import suspected

AT_ONCE = {"offsets_minutes": 0, "recheck_minutes": 0}


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
