"""Each fact is added once: by two collections at once, after one that was killed, and never after what was judged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from sandbox.broker import Sandbox
from spark_jobs.broker_facts import record as recording
from spark_jobs.broker_facts import store
from spark_jobs.broker_facts.fact_tables import FACT_TABLES
from spark_jobs.broker_facts.record import record
from spark_jobs.erasure.rules import Kind, Rule, digest, is_group_erased
from spark_jobs.jobs import extract
from spark_jobs.lake import catalog
from spark_jobs.lake.offsets import OFFSETS, Position, Queue, to_json
from spark_jobs.lake.tables import BROKERS, OBSERVATIONS, RAW, TOPIC_OFFSETS, TOPICS
from spark_jobs.maintenance.table import maintain_table
from spark_jobs.settings import PROJECT, BrokerFacts
from tests.broker_facts.conftest import World
from tests.faults.jobs.killing import Crash
from tests.planning import run_jobs_on


def assert_each_fact_once(world: World) -> None:
    """Per key one current row, and intervals that do not overlap."""
    for facts in FACT_TABLES:
        rows = world.rows(facts.table, current=False)
        current = Counter(facts.key_of(row) for row in rows if row["valid_to"] is None)
        assert max(current.values(), default=1) == 1, facts.table.name
        by_key: dict[tuple, list] = {}
        for row in rows:
            by_key.setdefault(facts.key_of(row), []).append((row["valid_from"], row["valid_to"]))
        for spans in by_key.values():
            assert all(a[1] is not None and a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


def publish_until(world: World, ms: int) -> None:
    """An extraction of the cluster is published: its offsets are complete up to this time, without messages."""
    table = catalog.lake(world.settings).load_table(RAW.name)
    queue = Queue(world.cluster.name, RAW.name, "broker-a", 0)
    nothing = pa.Table.from_pylist([], schema=schema_to_pyarrow(table.schema(), include_field_ids=False))
    table.append(nothing, snapshot_properties={OFFSETS: to_json({queue: Position(1, complete_to=ms)})})


def test_two_collections_at_once_add_each_fact_once(world: World, broker: Sandbox, java):
    for number in range(4):
        java("make_topic", topic=f"race-{number}", address=broker.broker_address, queues=2)
        start = threading.Barrier(3)
        failures: list[BaseException] = []

        def run(name: str, start: threading.Barrier = start, failures: list = failures) -> None:
            try:
                start.wait()
                world.record(name)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(f"run {number} {each}",)) for each in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert_each_fact_once(world)
        assert len(world.rows(TOPICS, topic=f"race-{number}")) == 1


def test_a_broker_is_removed_when_its_messages_have_expired_since_it_was_registered(world: World):
    now = datetime.now(UTC).replace(microsecond=0)
    table = catalog.lake(world.settings).load_table(BROKERS.name)
    rows = [
        {
            **{
                "cluster": "other",
                "broker": broker,
                "retention_hours": retention,
                "digest": "d",
                "run_id": "r",
            },
            **{"valid_from": now - timedelta(hours=hours + 1), "valid_to": valid_to},
        }
        for broker, retention, hours, valid_to in (
            ("expired", 48, 48, now - timedelta(hours=48)),
            ("kept", 48, 47, now - timedelta(hours=47)),
            ("registered", 48, 500, None),
            ("came_back", 48, 500, now - timedelta(hours=499)),
            ("came_back", 48, 1, None),
            ("unknown_retention", None, 71, now - timedelta(hours=71)),
        )
    ]
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    table.append(pa.Table.from_pylist(rows, schema=schema))
    assert store.removed_brokers(world.settings, "other", now) == {"expired"}
    assert store.removed_brokers(world.settings, "other", now + timedelta(hours=1)) == {
        *("expired", "kept", "unknown_retention")
    }


@pytest.fixture
def collected_once(monkeypatch: pytest.MonkeyPatch):
    """Every collection of the test sees what the first saw, at its own time."""
    real, seen = recording.collect, []

    def collect(client, limits, observed_at, *others):
        seen.append(seen[0] if seen else real(client, limits, observed_at, *others))
        of_time = [row | {"observed_at": observed_at} for row in seen[0].observations]
        return replace(seen[0], cluster=client.cluster, observed_at=observed_at, observations=of_time)

    monkeypatch.setattr(recording, "collect", collect)


def test_a_collection_that_is_killed_is_completed_by_the_next(world: World, collected_once, monkeypatch):
    real = store._save
    for point, after in [(0, False), (2, True), (4, False), (7, True), (8, False)]:
        one = World(world.settings, world.cluster.model_copy(update={"name": f"killed-{point}"}))
        calls = iter(range(100))

        def dies(*given, point=point, after=after, calls=calls):
            if next(calls) == point:
                if after:
                    real(*given)
                raise Crash
            return real(*given)

        def dies_at_the_end(*given):
            raise Crash

        with monkeypatch.context() as patched, suppress(Crash):
            patched.setattr(store, "_save", dies)
            if point == len(FACT_TABLES):
                patched.setattr(store, "_save_observations", dies_at_the_end)
            one.record("killed")
        assert one.rows(OBSERVATIONS) == []
        before = one.everything()
        one.record("next")
        assert_each_fact_once(one)
        assert len(one.rows(OBSERVATIONS)) == 1
        by_killed = [{row["run_id"] for row in one.rows(each.table, current=False)} for each in FACT_TABLES]
        expected = point + after
        assert all(runs <= {"killed"} for runs in by_killed[:expected])
        assert all(runs <= {"next"} for runs in by_killed[expected:])
        complete = one.everything()
        assert all(complete[name] == rows for name, rows in before.items() if rows)
        one.record("third")
        assert one.everything() == complete


def test_a_process_that_is_killed_between_two_tables(world: World):
    cluster = world.cluster.model_dump_json(exclude_none=True)
    environment = {
        "TRACE_HOME": str(world.settings.home),
        "TRACE_CLUSTERS": f"[{cluster}]",
        "PYTHONPATH": str(PROJECT),
    }
    command = [sys.executable, "-m", "tests.broker_facts.killed", "4"]
    ended = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    before = world.everything()
    assert [name for name, rows in before.items() if rows] == [each.table.name for each in FACT_TABLES[:4]]
    assert world.rows(OBSERVATIONS) == []
    world.record("next")
    assert_each_fact_once(world)
    assert world.rows(TOPICS) == world.rows(TOPICS, run_id="killed")
    assert len(world.rows(OBSERVATIONS)) == 1


def test_facts_of_records_that_are_judged_already_are_dropped(world: World, monkeypatch):
    """Another extraction of the cluster is published between the questions and the commit."""
    publish_until(world, 1_000_000)
    real = recording.collect

    def late(*given):
        found = real(*given)
        publish_until(world, 2_000_000)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(recording, "collect", late)
        recorded = world.record()
    assert (recorded.superseded, recorded.rows) == (True, {})
    assert not any(world.everything().values())
    world.record()
    (row,) = world.rows(OBSERVATIONS)
    assert row["watermark"].timestamp() == 2000


def test_an_earlier_collection_that_comes_late_changes_nothing(
    world: World, broker: Sandbox, java, monkeypatch
):
    world.record()
    real = recording.collect

    def late(client, limits, observed_at, *others):
        return real(client, limits, observed_at - timedelta(days=1), *others)

    java("make_topic", topic="newer", address=broker.broker_address, queues=1)
    before = world.everything()
    with monkeypatch.context() as patched:
        patched.setattr(recording, "collect", late)
        assert world.record().superseded
    assert world.everything() == before
    assert len(world.rows(OBSERVATIONS)) == 1


def test_maintenance_keeps_what_is_current_however_old(
    world: World, spark, broker: Sandbox, java, monkeypatch
):
    """Rows that ended before the retention are dropped; compaction and retention leave the state of the next collection."""
    real = recording.collect

    def days_ago(days: int) -> None:
        def earlier(client, limits, observed_at, *others):
            return real(client, limits, observed_at - timedelta(days=days), *others)

        with monkeypatch.context() as patched:
            patched.setattr(recording, "collect", earlier)
            world.record(f"{days} days ago")

    java("make_topic", topic="ageing", address=broker.broker_address, queues=1)
    for days in (500, 450, 420, 300):
        days_ago(days)
        java("send", topic="ageing", broker=broker.broker_name, tag="a", queues=1, count=1)
    world.record("today")
    ends = [row["run_id"] for row in world.rows(TOPIC_OFFSETS, current=False, topic="ageing")]
    assert ends == ["500 days ago", "450 days ago", "420 days ago", "300 days ago", "today"]
    before = world.rows(TOPICS)
    for table in (TOPICS, TOPIC_OFFSETS, OBSERVATIONS):
        policy = world.settings.table_policy(table.name)
        maintain_table(spark, world.settings, table.name, policy, datetime.now(UTC), "maintenance")
    ends = [row["run_id"] for row in world.rows(TOPIC_OFFSETS, current=False, topic="ageing")]
    assert ends == ["420 days ago", "300 days ago", "today"]
    assert len(world.rows(OBSERVATIONS)) == 2
    assert world.rows(TOPICS) == before
    assert "500 days ago" in {row["run_id"] for row in before}
    assert world.record("after").rows == {OBSERVATIONS.name: 1}
    assert_each_fact_once(world)


def test_nothing_is_stored_of_an_erased_group(world: World, broker: Sandbox, java):
    java("make_topic", topic="%RETRY%forgotten", address=broker.broker_address, queues=1)
    java("consume", group="forgotten", tags={"TBW102": "*"})
    try:
        world.record()
        assert any("forgotten" in row for rows in world.everything().values() for row in rows)
        rules = [Rule(world.cluster.name, Kind.GROUP, "salt", digest("salt", "forgotten"))]
        other = world.cluster.model_copy(update={"name": "erased"})
        record(world.settings, other, "run", lambda group: is_group_erased(rules, group))
    finally:
        java("stop", group="forgotten")
    erased = World(world.settings, other)
    assert erased.rows(TOPICS)
    assert not any("forgotten" in row for rows in erased.everything().values() for row in rows)
    assert "forgotten" not in str(erased.rows(OBSERVATIONS))


def extracted(world: World, monkeypatch, capfd, **environment: str) -> tuple[int, str]:
    """Run the job; its exit code and output."""
    run_jobs_on(world.settings, monkeypatch)
    cluster = world.cluster.model_dump_json(exclude_none=True)
    for name, value in {"TRACE_CLUSTERS": f"[{cluster}]", **environment}.items():
        monkeypatch.setenv(name, value)
    code = extract.main(["--cluster", world.cluster.name, "--run-id", "job"])
    return code, capfd.readouterr().err


def test_the_extraction_records_the_facts_first(world: World, monkeypatch, capfd):
    code, output = extracted(world, monkeypatch, capfd)
    assert (code, "broker facts of" in output) == (0, True)
    code, _ = extracted(world, monkeypatch, capfd)
    assert code == 0
    first, second = world.rows(OBSERVATIONS)
    assert (first["watermark"], first["run_id"]) == (None, "job")
    assert second["watermark"] < second["observed_at"]
    assert_each_fact_once(world)


def test_facts_can_be_switched_off(world: World, monkeypatch, capfd):
    code, output = extracted(world, monkeypatch, capfd, TRACE_BROKER_FACTS__ENABLED="false")
    assert (code, "broker facts" in output) == (0, False)
    assert world.rows(OBSERVATIONS) == []


def test_the_extraction_goes_on_without_facts(world: World, monkeypatch, capfd):
    def fails(*given):
        raise RuntimeError("no facts today")

    monkeypatch.setattr(recording, "collect", fails)
    code, output = extracted(world, monkeypatch, capfd)
    assert code == 0
    assert "RuntimeError: no facts today. This does not stop the extraction" in output
    assert world.rows(OBSERVATIONS) == []


def test_limits_are_settings():
    with pytest.raises(ValueError, match="less than or equal to 4"):
        BrokerFacts(requests_in_flight=5)
