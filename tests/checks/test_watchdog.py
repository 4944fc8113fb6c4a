"""The watchdog alerts independently of the other jobs: when they are silent, and when it cannot check them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from spark_jobs.alerts import store, tasks
from spark_jobs.jobs import watchdog
from spark_jobs.jobs.watchdog import watch
from spark_jobs.lake.catalog import head
from spark_jobs.lake.tables import RAW
from spark_jobs.settings import PROJECT, Alerts, Catalog, Checks, Cluster, Settings
from spark_jobs.settings_deployment import Warehouse
from tests.checks.loopback import receiver, until


@pytest.fixture
def hook():
    with receiver() as started:
        yield started


@pytest.fixture
def ours(result, settings, hook, tmp_path):
    """A watchdog over the lake of the tests, with state, a chat and a dead-man's switch of its own."""
    store.change(settings, lambda alerts: [])
    return Settings(
        home=tmp_path,
        clusters=[],
        catalog=Catalog(uri=settings.catalog_uri),
        warehouse=Warehouse(uri=settings.warehouse_uri),
        checks=Checks(disk_free_share=0),  # whatever the disk of the tests has
        alerts=Alerts(
            apprise={"pipeline": [f"json://{hook.url}/chat"]}, heartbeat_url=f"http://{hook.url}/beat/1"
        ),
    )


def titles(hook) -> list[str]:
    return [body["title"] for body in hook.bodies("/chat")]


def test_without_failures_it_sends_only_the_heartbeat(result, ours, hook):
    assert watch(ours, datetime.now(UTC), "calm") == []
    assert hook.requests == [("GET", "/beat/1", None)]
    rows = result.sql(
        "select check, passed, owner, runbook from lake.ops.check_results where run = 'calm'"
    ).collect()
    assert {row.check for row in rows} == {
        *("ingest_silent", "marts_silent", "freshness_raw", "freshness_events", "freshness_marts"),
        *("disk_space", "lag", "retention_headroom"),
    }
    assert all(row.passed for row in rows)
    assert all((row.owner, row.runbook) == ("data-platform", f"docs/runbooks/{row.check}.md") for row in rows)


def test_it_alerts_when_a_running_task_was_killed(ours, hook):
    """A merge is killed with SIGKILL while it starts: it sends no notification, and publishes nothing."""
    before = head(ours, RAW)
    environment = os.environ | {
        **{"TRACE_HOME": str(ours.home), "PYTHONPATH": str(PROJECT)},
        **{"TRACE_CATALOG__URI": ours.catalog_uri, "TRACE_WAREHOUSE__URI": ours.warehouse_uri},
    }
    task = subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.jobs.merge"],
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: _has_java(task.pid), 60, "the merge did not start")
    os.killpg(task.pid, signal.SIGKILL)
    assert task.wait() == -signal.SIGKILL
    assert head(ours, RAW) == before

    now = datetime.now(UTC)
    assert watch(ours, now, "soon") == []
    assert titles(hook) == []
    assert watch(ours, now + timedelta(minutes=25), "later") == []
    (title,) = titles(hook)
    assert re.fullmatch(r"\[CRITICAL\] local: no commit to raw or events for \d+ min, limit 20 min", title)
    assert watch(ours, now + timedelta(minutes=30), "once more") == []
    assert len(titles(hook)) == 1
    (alert,) = [each for each in store.read(ours) if each.is_open]
    assert (alert.check, alert.entity) == ("ingest_silent", None)


def test_checks_of_the_lake_notify_although_no_broker_answers(ours, hook):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        clusters = [Cluster(name=name, namesrv=[address]) for name in ("hangs", "hangs_too")]
        begin = time.monotonic()
        later = datetime.now(UTC) + timedelta(minutes=25)
        assert watch(ours.model_copy(update={"clusters": clusters}), later, "silent") == []
    assert time.monotonic() - begin < 30, "the task is killed after four minutes"
    alerts = {(alert.check, alert.entity) for alert in store.read(ours)}
    assert {("ingest_silent", None), ("lag", "hangs"), ("lag", "hangs_too")} <= alerts
    silent, unasked = (
        next(n for n, title in enumerate(titles(hook)) if words in title)
        for words in ("no commit to raw or events", "could not be checked: lag")
    )
    assert silent < unasked


def test_a_lake_that_hangs_is_an_alert_within_the_timeout(ours, hook, monkeypatch):
    """A catalog behind a socket that takes what it is sent and says nothing."""
    monkeypatch.setattr(watchdog, "SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hangs = ours.model_copy(update={"catalog": Catalog(kind="rest", uri=uri)})
        hangs = Settings.model_validate(hangs.model_dump())
        assert watch(hangs, datetime.now(UTC), "hangs") == ["TimeoutError: it took more than 2 s"]
    assert len(titles(hook)) == 1


def _has_java(leader: int) -> bool:
    """Of the process group of that leader."""
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.getpgid(int(entry)) == leader:
                with open(f"/proc/{entry}/comm") as comm:
                    if comm.read().strip() == "java":
                        return True
        except OSError:
            continue  # it has just ended
    time.sleep(0.2)
    return False


def test_it_alerts_once_and_sends_no_heartbeat_when_the_lake_is_unavailable(ours, hook, tmp_path):
    away = ours.model_copy(update={"catalog": Catalog(uri=f"jdbc:sqlite:{tmp_path}/none/catalog.db")})
    away = Settings.model_validate(away.model_dump())
    for n in range(2):
        (wrong,) = watch(away, datetime.now(UTC) + timedelta(minutes=5 * n), "blind")
        assert "unable to open database file" in wrong
    (opened,) = titles(hook)
    assert opened.startswith("[CRITICAL] local: the watchdog could not do its work: ")
    assert "unable to open database file" in opened
    assert hook.bodies("/beat/1") == []
    assert watch(ours, datetime.now(UTC) + timedelta(minutes=10), "sees") == []
    assert titles(hook)[1:] == [opened.replace("[CRITICAL]", "[RESOLVED]")]
    assert len(hook.bodies("/beat/1")) == 1


def test_open_alerts_are_resent_while_the_lake_is_unavailable(ours, hook, tmp_path):
    alerts = ours.alerts.model_copy(update={"alertmanager": [SecretStr(f"http://{hook.url}")]})
    ours = ours.model_copy(update={"alerts": alerts})
    now = datetime.now(UTC)
    tasks.task_ended(ours, "d/t", True, "its log", "r1", now)
    assert watch(ours, now, "sees") == []
    away = ours.model_copy(update={"catalog": Catalog(uri=f"jdbc:sqlite:{tmp_path}/none/catalog.db")})
    away = Settings.model_validate(away.model_dump())
    for minutes in (5, 10, 15, 20):
        hook.requests.clear()
        later = now + timedelta(minutes=minutes)
        assert len(watch(away, later, "blind")) == 1
        sent = {
            alert["labels"].get("entity"): alert for body in hook.bodies("/api/v2/alerts") for alert in body
        }
        assert set(sent) == {"d/t", None}, "the task, and the watchdog itself"
        kept = datetime.fromisoformat(sent["d/t"]["endsAt"]) - datetime.now(UTC)
        assert timedelta(minutes=14) < kept <= timedelta(minutes=15)
        assert not [title for title in titles(hook) if "task d/t failed" in title], "chats know it already"


def test_a_sink_that_does_not_answer_stops_the_heartbeat(ours, hook):
    hook.answers = [503] * 3
    tasks.task_ended(ours, "d/t", True, "its log", "r1", datetime.now(UTC))
    hook.answers = [503] * 3
    (wrong,) = watch(ours, datetime.now(UTC) + timedelta(minutes=5), "deaf")
    assert wrong == "sink apprise pipeline 1 could not be notified: refused, 3 times"
    assert hook.bodies("/beat/1") == []
    assert len(titles(hook)) == 7  # the last is about the watchdog itself
    assert watch(ours, datetime.now(UTC) + timedelta(minutes=10), "hears") == []
    assert len(hook.bodies("/beat/1")) == 1


def test_a_switch_that_does_not_answer_is_an_alert_from_the_second_time_on(ours, hook):
    now = datetime.now(UTC)
    notified: list[list[str]] = []
    for n in range(4):
        hook.answers = [503] * 3 if n < 3 else []
        wrong = watch(ours, now + timedelta(minutes=n), f"run {n}")
        assert wrong == ([] if n == 3 else ["heartbeat: answer 503, 3 times"])
        notified.append(titles(hook))
    opened = "[CRITICAL] local: the watchdog could not do its work: heartbeat: answer 503, 3 times"
    assert notified[:3] == [[], [opened], [opened]]
    assert notified[3] == [opened, opened.replace("[CRITICAL]", "[RESOLVED]")]
    hook.answers = [503] * 3
    assert watch(ours, now + timedelta(minutes=4), "again") != []
    assert len(titles(hook)) == 2, "an accepted one was between them"


def test_before_the_first_ingest_it_waits_for_a_while(ours, hook, tmp_path):
    fresh = Settings(home=tmp_path / "fresh", alerts=ours.alerts)
    (tmp_path / "fresh").mkdir()
    now = datetime.now(UTC)
    assert watch(fresh, now, "first") == []
    assert watch(fresh, now + timedelta(minutes=20), "again") == []
    assert hook.requests == []
    (wrong,) = watch(fresh, now + timedelta(minutes=25), "late")
    assert "does not exist" in wrong
    assert len(titles(hook)) == 1


def test_a_cluster_that_was_just_added_has_time_to_be_read(ours, hook):
    added = ours.model_copy(update={"clusters": [Cluster(name="added", namesrv=["127.0.0.1:1"])]})
    added = added.model_copy(update={"checks": Checks(off=["lag", "ingest_silent", "marts_silent"])})
    now = datetime.now(UTC)
    for minutes in (0, 29):
        assert watch(added, now + timedelta(minutes=minutes), "added") == []
        assert titles(hook) == []
    assert watch(added, now + timedelta(minutes=31), "added") == []
    alerts = {(alert.check, alert.entity) for alert in store.read(ours) if alert.is_open}
    assert alerts == {("freshness_raw", "added"), ("freshness_events", "added")}


def test_the_alert_of_a_removed_task_is_resolved(ours, hook):
    now = datetime.now(UTC)
    for task in ("d/gone", "d/extract/c1", "d/extract/c2", "d/any/7", "e/gone"):
        tasks.task_ended(ours, task, True, "its log", "r1", now)
    there = {"d/t", "d/extract/c1", "d/any/*"}
    tasks.task_ended(ours, "d/t", False, "its log", "r2", now + timedelta(minutes=1), there)
    assert {alert.entity for alert in store.read(ours) if alert.is_open} == {
        "d/extract/c1",
        "d/any/7",
        "e/gone",
    }


def test_a_task_that_failed_is_an_alert_until_it_succeeds(result, ours, hook):
    now = datetime.now(UTC)
    tasks.task_ended(ours, "d/well", False, "its log", "r0", now)
    assert result.table("lake.ops.check_results").where("run = 'r0'").isEmpty()
    tasks.task_ended(ours, "d/t", True, "its log", "r1", now)
    tasks.task_ended(ours, "d/other", True, "its log", "r1", now)
    tasks.task_ended(ours, "d/t", False, "its log", "r2", now + timedelta(minutes=1))
    assert [(a.entity, a.state) for a in store.read(ours)] == [("d/other", "open"), ("d/t", "resolved")]
    assert titles(hook) == [
        "[CRITICAL] local: task d/t failed",
        "[CRITICAL] local: task d/other failed",
        "[RESOLVED] local: task d/t failed",
    ]
