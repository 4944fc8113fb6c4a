"""While a job holds a pool slot, the freshness alerts of waiting jobs are silenced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.alerts import run_checks, silences, store, tasks
from spark_jobs.alerts.alert import advance
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import MAINTENANCE_WINDOWS
from spark_jobs.settings import Alerts
from tests.checks.loopback import receiver, until
from tests.checks.test_alerts import found


def held_back(settings, now: datetime) -> list[str]:
    return [window.match for window in silences.with_job_windows(settings, now).alerts.maintenance]


def test_alerts_are_silenced_from_the_start_of_the_job_until_some_time_after_its_end(result, watched):
    with silences.maintenance_window(watched, ["ingest_silent", "freshness_raw"], "upkeep"):
        inside = datetime.now(UTC)
        assert sorted(held_back(watched, inside)) == ["*:freshness_raw*", "*:ingest_silent*"]
        silent = found((None, False), check=BY_NAME["ingest_silent"])
        alerts = advance([], [silent], silences.with_job_windows(watched, inside), inside)
        assert [alert.announced for alert in alerts] == [False]
    over = datetime.now(UTC)
    assert len(held_back(watched, over)) == 2
    later = over + silences.AFTER
    assert held_back(watched, later) == []
    alerts = advance(alerts, [silent], silences.with_job_windows(watched, later), later)
    assert [alert.announced for alert in alerts] == [True], "what still stands then goes out"
    rows = lake(watched).load_table(MAINTENANCE_WINDOWS.name).scan().to_arrow().to_pylist()
    assert {row["run_id"] for row in rows} == {"upkeep"}
    assert len(rows) == 2


def test_a_window_is_renewed_while_the_job_runs_and_expires_after_it_was_killed(result, watched, monkeypatch):
    monkeypatch.setattr(silences, "RENEWED", timedelta(seconds=1))
    with silences.maintenance_window(watched, ["ingest_silent"], "long"):
        first = datetime.now(UTC) + silences.AFTER
        # Killed now, it would hold nothing back from there on.
        assert held_back(watched, first) == []
        until(lambda: held_back(watched, first) == ["*:ingest_silent*"], 20, "the window was not renewed")


def test_the_end_of_a_task_sends_no_silenced_alert(result, watched):
    store.change(watched, lambda alerts: [])
    silent = found((None, False), check=BY_NAME["ingest_silent"])
    with silences.maintenance_window(watched, ["ingest_silent"], "upkeep"), receiver() as hook:
        alerts = Alerts(apprise={"pipeline": [f"json://{hook.url}/chat"]})
        ours = watched.model_copy(update={"alerts": alerts})
        run_checks.notify_about([silent], ours, "watchdog", datetime.now(UTC))
        tasks.task_ended(ours, "d/t", True, "its log", "r1", datetime.now(UTC))
        assert [body["title"] for body in hook.bodies("/chat")] == ["[CRITICAL] local: task d/t failed"]
    store.change(watched, lambda alerts: [])


def test_the_window_also_ends_when_the_job_fails(result, watched):
    with pytest.raises(RuntimeError), silences.maintenance_window(watched, ["marts_silent"], "broken"):
        raise RuntimeError
    assert held_back(watched, datetime.now(UTC) + silences.AFTER) == []
