"""What the watchdog asks the brokers: how much waits to be read, and how soon it will be gone."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.checks import brokers
from spark_jobs.checks.check import Run, judge
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake import tables
from spark_jobs.lake.offsets import OFFSETS, Position, Queue, to_json
from spark_jobs.settings import Checks, Cluster
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC

UNREAD = Queue("sandbox", LONG_TOPIC, "broker-a", 0)
READ = Queue("sandbox", "three", "broker-a", 0)
EMPTY = Queue("sandbox", "three", "broker-a", 1)
NEVER = Queue("sandbox", "three", "broker-a", 2)
# Check to the queue that makes it fail, with its value, and one that lets it pass.
CASES = {
    "lag": (str(UNREAD), LONG_COUNT - 10, str(READ)),
    "retention_headroom": (str(UNREAD), 2, str(READ)),
}


@pytest.fixture
def watched(lake, settings, written):
    """The settings, with the broker's topics as trace topics; raw has read `three`/0 whole and ten of `long`."""
    lake.sql(f"drop table {tables.RAW.full_name} purge")
    tables.ensure(lake)
    committed = {UNREAD: Position(10, store_time=1), READ: Position(1000, store_time=1), EMPTY: Position(0)}
    commit(lake, committed)
    cluster = Cluster(name="sandbox", namesrv=[written.sandbox.namesrv], trace_topics=[LONG_TOPIC, "three"])
    return settings.model_copy(update={"clusters": [cluster], "checks": Checks(lag_messages=100)})


def commit(lake, committed: dict[Queue, Position]) -> None:
    lake.createDataFrame([], tables.RAW.schema).writeTo(tables.RAW.full_name).option(
        f"snapshot-property.{OFFSETS}", to_json(committed)
    ).append()


def results(name: str, settings, now: datetime):
    found = judge(BY_NAME[name], BY_NAME[name].measure(Run(settings, now)), settings)
    return {result.entity: result for result in found.results}, found


def test_the_lag_is_what_the_broker_has_and_raw_has_not(watched):
    by_queue, found = results("lag", watched, datetime.now(UTC))
    fails, value, passes = CASES["lag"]
    assert [(r.entity, r.value) for r in found.failures] == [(fails, value)]
    assert {queue: by_queue[str(queue)].value for queue in (READ, EMPTY, NEVER)} == {
        READ: 0,
        EMPTY: 0,
        NEVER: 10,
    }
    assert by_queue[passes].passed
    assert found.complete


def test_the_headroom_is_until_the_first_unread_message_is_deleted(watched):
    in_70_hours = datetime.now(UTC) + timedelta(hours=70)
    by_queue, found = results("retention_headroom", watched, in_70_hours)
    fails, hours, passes = CASES["retention_headroom"]
    assert {r.entity for r in found.failures} == {fails, str(NEVER)}
    assert by_queue[fails].value == pytest.approx(hours, abs=0.2)
    assert (by_queue[passes].value, by_queue[passes].passed) == (72, True)


def test_nothing_is_said_of_queues_whose_broker_cannot_be_asked(watched):
    (cluster,) = watched.clusters
    away = replace_namesrv(watched, cluster)
    by_queue, found = results("lag", away, datetime.now(UTC))
    assert [r.entity for r in found.failures] == ["sandbox"]
    assert "127.0.0.1:1" in by_queue["sandbox"].detail
    assert by_queue[str(UNREAD)].passed is None
    assert not found.complete
    _, headroom = results("retention_headroom", away, datetime.now(UTC))
    assert headroom.failures == []


def test_a_recreated_topic_has_no_reported_lag_and_is_unread(lake, watched):
    """Read to far behind its end, in another life of it."""
    commit(lake, {UNREAD: Position(LONG_COUNT + 50_000, store_time=1), READ: Position(1000, store_time=1)})
    by_queue, _ = results("lag", watched, datetime.now(UTC))
    assert (by_queue[str(UNREAD)].passed, by_queue[str(UNREAD)].value) == (False, None)
    assert f"make ingest-reset QUEUE={UNREAD}" in by_queue[str(UNREAD)].detail
    assert by_queue[str(READ)].value == 0
    by_queue, _ = results("retention_headroom", watched, datetime.now(UTC) + timedelta(hours=70))
    assert by_queue[str(UNREAD)].value == pytest.approx(2, abs=0.2)
    assert by_queue[str(UNREAD)].passed is False


def test_a_cluster_passes_that_was_asked_though_another_cannot_be(watched):
    (cluster,) = watched.clusters
    away = Cluster(name="away", namesrv=["127.0.0.1:1"])
    by_queue, found = results(
        "lag", watched.model_copy(update={"clusters": [away, cluster]}), datetime.now(UTC)
    )
    assert (by_queue["away"].passed, by_queue["sandbox"].passed) == (False, True)


def test_a_broker_that_hangs_is_asked_once_for_all_of_its_queues_and_both_checks(watched, written):
    """As in a long garbage collection: its socket takes what it is sent, and nothing comes back."""
    run, begin = Run(watched, datetime.now(UTC)), time.monotonic()
    os.kill(written.sandbox.broker_pid, signal.SIGSTOP)
    try:
        lag, headroom = (
            judge(BY_NAME[name], BY_NAME[name].measure(run), watched)
            for name in ("lag", "retention_headroom")
        )
    finally:
        os.kill(written.sandbox.broker_pid, signal.SIGCONT)
    assert time.monotonic() - begin < 3 * brokers.TIMEOUT_SECONDS
    assert [r.entity for r in lag.failures] == ["sandbox"]
    assert "did not answer" in lag.failures[0].detail
    assert headroom.failures == []
    assert {r.entity for r in headroom.results} == {str(UNREAD), str(READ), str(EMPTY)}


def test_a_cluster_whose_secret_is_missing_is_reported_and_the_others_are_asked(watched):
    (cluster,) = watched.clusters
    locked = Cluster(name="locked", namesrv=cluster.namesrv, credentials_env="NO_SUCH")
    by_queue, found = results(
        "lag", watched.model_copy(update={"clusters": [locked, cluster]}), datetime.now(UTC)
    )
    assert "set NO_SUCH_ACCESS_KEY" in by_queue["locked"].detail
    assert by_queue[str(READ)].passed


def replace_namesrv(settings, cluster: Cluster):
    away = Cluster.model_validate(cluster.model_dump() | {"namesrv": ["127.0.0.1:1"]})
    return settings.model_copy(update={"clusters": [away]})
