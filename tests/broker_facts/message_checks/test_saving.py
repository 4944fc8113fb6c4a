"""How checks are stored: once, beside the facts that they were judged with, and for their retention."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.broker_facts import record as recording
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import MESSAGE_CHECKS, OBSERVATIONS
from spark_jobs.maintenance.table import maintain_table
from tests.broker_facts.conftest import World
from tests.broker_facts.message_checks.conftest import TOPIC
from tests.broker_facts.message_checks.looked_up import checked, publish
from tests.broker_facts.message_checks.suspected import suspect
from tests.broker_facts.test_commits import publish_until


def append(world: World, rows: list[dict[str, Any]]) -> None:
    table = lake(world.settings).load_table(MESSAGE_CHECKS.name)
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    table.append(pa.Table.from_pylist(rows, schema=schema))


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


def test_two_collections_at_once_add_each_check_once(world: World, sent, monkeypatch):
    """Another collection, which asked first, adds its check after this one has read what was checked before."""
    real = recording.check_suspects

    def beside_another(*given: Any) -> Any:
        found = real(*given)
        (row,) = (row for row in found.rows if row["consumer_group"] == "reads-all")
        first = {
            "cluster": world.cluster.name,
            "run_id": "first",
            "checked_at": row["checked_at"] - timedelta(seconds=1),
        }
        append(world, [row | first])
        return found

    publish(world, *(suspect(sent["first"], TOPIC, group) for group in ("reads-all", "reads-b")))
    with monkeypatch.context() as patched:
        patched.setattr(recording, "check_suspects", beside_another)
        recorded = world.record("second")
    assert recorded.rows[MESSAGE_CHECKS.name] == 1
    stored = {row["consumer_group"]: row["run_id"] for row in world.rows(MESSAGE_CHECKS)}
    assert stored == {"reads-all": "first", "reads-b": "second"}
    assert len(world.rows(MESSAGE_CHECKS)) == 2


def test_collections_in_parallel_add_each_check_once(world: World, sent):
    groups = ["gives-up", "reads-all", "reads-b"]
    publish(world, *(suspect(sent["first"], TOPIC, group) for group in groups))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(world.record, ["one", "two", "three"]))
    assert sorted(row["consumer_group"] for row in world.rows(MESSAGE_CHECKS)) == groups


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
    old = [
        row | {"run_id": f"{days} days ago", "checked_at": row["checked_at"] - timedelta(days)}
        for days in (399, 402)
    ]
    append(world, old)
    policy = world.settings.table_policy(MESSAGE_CHECKS.name)
    maintain_table(spark, world.settings, MESSAGE_CHECKS.name, policy, datetime.now(UTC), "maintenance")
    assert [row["run_id"] for row in world.rows(MESSAGE_CHECKS)] == ["399 days ago", "run"]
