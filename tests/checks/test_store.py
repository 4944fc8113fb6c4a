"""`lake.ops.alerts` and a real Alertmanager: from a failed check to a notification and its resolution."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import httpx
import pytest

from spark_jobs.alerts import run_checks, store
from spark_jobs.alerts.alert import advance
from spark_jobs.checks.check import Run
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake import tables
from spark_jobs.settings import Alerts, Checks
from tests.checks.loopback import alertmanager, needs_alertmanager, receiver, until
from tests.checks.test_alerts import SETTINGS, found, minute
from tests.checks.world import WELL

RESOLVE_SECONDS = 2


@pytest.fixture(autouse=True)
def no_alerts(watched):
    """The lake is shared with modules that leave alerts in it."""
    store.change(watched, lambda alerts: [])


def test_two_concurrent_writers_lose_no_update(result, watched):
    """Each of them reads, changes and writes the whole table."""
    ready = threading.Barrier(4)
    failed: list[Exception] = []

    def write(n: int) -> None:
        try:
            ready.wait()
            store.change(
                watched,
                lambda alerts: advance(
                    alerts, [found((f"w{n}", False), complete=False)], SETTINGS, minute(n)
                ),
            )
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {alert.entity for alert in store.read(watched)} == {"w0", "w1", "w2", "w3"}
    rows = result.sql("select entity, state, `table`, `class` from lake.ops.alerts order by entity").collect()
    assert [tuple(row) for row in rows] == [
        (f"w{n}", "open", "marts.orphan_rate", "messaging") for n in range(4)
    ]
    before = result.sql("select count(*) from lake.ops.alerts.snapshots").first()[0]
    store.change(watched, lambda alerts: alerts)
    assert result.sql("select count(*) from lake.ops.alerts.snapshots").first()[0] == before
    store.change(watched, lambda alerts: [])


def test_a_lake_of_an_earlier_version_stores_alerts_before_and_after_its_migration(result, watched):
    """The watchdog, which has no Spark, may be the first to write."""
    result.sql("alter table lake.ops.alerts drop columns (value, threshold)")
    written = store.change(
        watched, lambda alerts: advance(alerts, [found(("a", False))], SETTINGS, minute(0))
    )
    assert [(alert.entity, alert.value) for alert in written] == [("a", 5e6)]
    assert [(alert.entity, alert.value) for alert in store.read(watched)] == [("a", None)]
    tables.ensure(result)
    store.change(watched, lambda alerts: advance(alerts, [found(("a", False))], SETTINGS, minute(1)))
    assert [(alert.value, alert.threshold) for alert in store.read(watched)] == [(5e6, 0.01)]
    store.change(watched, lambda alerts: [])


@pytest.fixture
def hook():
    with receiver() as started:
        yield started


@needs_alertmanager
def test_a_failure_is_one_alert_in_alertmanager_until_it_is_resolved(result, watched, hook, tmp_path):
    """The offsets of cluster `well` are whole, broken, left alone, and whole again."""
    with alertmanager(tmp_path / "am", hook.url, f"{RESOLVE_SECONDS}s") as url:
        ours = watched.model_copy(
            update={
                "alerts": Alerts(alertmanager=[url], interval_seconds=60),
                "checks": Checks(integrity_days=36_500),  # of the world's time, and now is now
            }
        )

        def check() -> None:
            run = Run(ours, datetime.now(UTC), result)
            made, undelivered = run_checks.evaluate_and_notify(
                [BY_NAME["offsets_contiguous"]], run, "test_store"
            )
            assert undelivered.undelivered == {}

        def firing() -> list[dict]:
            alerts = httpx.get(f"{url}/api/v2/alerts?active=true").json()
            return [alert for alert in alerts if alert["labels"]["entity"] == str(WELL)]

        def notified() -> list[str]:
            notified_of = [alert for body in hook.bodies("/hook") for alert in body["alerts"]]
            return [each["status"] for each in notified_of if each["labels"]["entity"] == str(WELL)]

        check()
        assert firing() == []

        result.sql("delete from lake.raw.trace_messages where cluster = 'well' and queue_offset = 3")
        check()
        (alert,) = firing()
        assert alert["annotations"]["identity"] == f"local:raw.trace_messages:offsets_contiguous:{WELL}"
        assert alert["annotations"]["runbook_url"] == "docs/runbooks/offsets_contiguous.md"
        assert (alert["labels"]["severity"], alert["labels"]["route"]) == ("critical", "pipeline")
        until(lambda: notified() == ["firing"], 10, "no notification was sent")

        check()
        time.sleep(2 * RESOLVE_SECONDS)
        assert [each["fingerprint"] for each in firing()] == [alert["fingerprint"]]
        assert notified() == ["firing"]

        result.sql(
            "insert into lake.raw.trace_messages select * from lake.raw.trace_messages version as of "
            f"{_first_snapshot(result)} where cluster = 'well' and queue_offset = 3"
        )
        check()
        until(lambda: notified() == ["firing", "resolved"], 10, "no resolution was sent")
        assert firing() == []
        states = [(a.state, a.resolution) for a in store.read(ours) if a.entity == str(WELL)]
        assert states == [("resolved", "passed")]
        results = result.sql(
            f"select passed, value, evaluations from lake.ops.check_results where entity = '{WELL}' and run = 'test_store' "
            "order by evaluated_at"
        ).collect()
        assert [tuple(row) for row in results] == [(True, 0, 1), (False, 1, 2), (True, 0, 1)]


def _first_snapshot(spark) -> int:
    return spark.sql(
        "select snapshot_id from lake.raw.trace_messages.snapshots order by committed_at limit 1"
    ).first()[0]
