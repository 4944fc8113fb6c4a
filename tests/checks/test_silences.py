"""While a job holds a pool slot, the freshness alerts of waiting jobs are silenced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.alerts import run_checks, silences, store, tasks
from spark_jobs.alerts.alert import advance
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.jobs import maintenance_window
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


def test_a_window_that_someone_begins_silences_until_it_ends(result, watched, monkeypatch, capsys):
    monkeypatch.setattr(maintenance_window, "Settings", lambda: watched)
    failed = found((None, False), check=BY_NAME["serving_file"])
    assert maintenance_window.main(["--for", "2h", "--match", "*:serving_*", "--run-id", "me"]) == 0
    now = datetime.now(UTC)
    (window,) = [each for each in silences.windows(watched, now) if each.run_id == "me"]
    assert timedelta(minutes=119) < window.ends_at - now <= timedelta(hours=2)
    alerts = advance([], [failed], silences.with_job_windows(watched, now), now)
    assert [alert.announced for alert in alerts] == [False]
    shown = capsys.readouterr().out
    assert f"alerts *:serving_* are silenced until {window.ends_at:%F %T} UTC" in shown
    assert window.window_id[:8] in shown
    assert maintenance_window.main(["--end", window.window_id[:8]]) == 0
    assert "which are sent now if they are open" in capsys.readouterr().out
    over = datetime.now(UTC)
    assert window.window_id not in {each.window_id for each in silences.windows(watched, over)}
    alerts = advance(alerts, [failed], silences.with_job_windows(watched, over), over)
    assert [alert.announced for alert in alerts] == [True]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--for", "2"], "give 90m, 2h or 3d, at most 30d"),
        (["--for", "0h"], "give 90m, 2h or 3d, at most 30d"),
        (["--for", "31d"], "give 90m, 2h or 3d, at most 30d"),
        (["--end", "0x"], "0 windows that are not over have an id that begins with 0x"),
    ],
)
def test_a_window_has_an_end_and_only_a_known_one_is_ended(
    result, watched, monkeypatch, capsys, arguments, why
):
    monkeypatch.setattr(maintenance_window, "Settings", lambda: watched)
    with pytest.raises(SystemExit):
        maintenance_window.main(arguments)
    assert why in capsys.readouterr().err


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
