"""Sinks are notified, later if they do not answer, and their addresses are never shown."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from textwrap import dedent

import pytest
import yaml
from pydantic_settings import SettingsError

from spark_jobs.alerts import file_store
from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.notify import LEASE, StateNotSavedError, notify
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import PROJECT, Alerts, Settings
from tests.checks.loopback import alertmanager, needs_alertmanager, receiver, until
from tests.checks.test_alerts import found, minute

ORPHANS = "not proven: 500,000,000 % of the messages of a have no trace of a consumption by a, limit 1 %"
SECRETS = ("hush-7", "tok-9")


@pytest.fixture
def hook():
    with receiver() as started:
        yield started


def settings(**alerts) -> Settings:
    return Settings(environment="prod", alerts=Alerts(**alerts))


def test_apprise_is_notified_once_of_a_failure_and_once_of_its_resolution(store, hook):
    ours = settings(
        apprise={"messaging": [f"json://{hook.url}/chat"], "pipeline": [f"json://{hook.url}/other"]}
    )
    for n, passed in enumerate((False, False, True, True)):
        notify(store, [found(("a", passed), ("b", passed))], ours, minute(n))
    assert [body["title"] for body in hook.bodies("/chat")] == [
        f"[{state}] prod/a: {ORPHANS} (and 1 more)" for state in ("WARNING", "RESOLVED")
    ]
    assert hook.bodies("/other") == []


def test_an_undelivered_notification_is_retried_by_a_later_run(store, hook):
    with receiver() as away:
        ours = settings(apprise={"messaging": [f"json://{away.url}/x", f"json://{hook.url}/y"]})
        away.answers = [500, 500, 500]
        result = notify(store, [found(("a", False))], ours, minute(0))
        assert result.undelivered == {"apprise messaging 1": "refused, 3 times"}
        assert (len(away.requests), len(hook.requests)) == (3, 1)
        # Whoever is to deliver it has it for a while; then any run does, also one without results.
        notify(store, [], ours, minute(0) + LEASE - timedelta(seconds=1))
        assert len(away.requests) == 3
        assert notify(store, [], ours, minute(0) + LEASE).undelivered == {}
        assert (len(away.requests), len(hook.requests)) == (4, 1)
        notify(store, [], ours, minute(9))
        assert (len(away.requests), len(hook.requests)) == (4, 1)


def test_a_sink_that_hangs_does_not_delay_the_others(store, hook):
    """Two Alertmanagers behind a socket that takes what it is sent and says nothing, and a chat that does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ours = settings(
            alertmanager=[f"http://{address}", f"http://{address}"],
            apprise={"messaging": [f"json://{hook.url}/chat", f"json://{address}/chat"]},
        )
        evaluations = [found(("a", False), check=BY_NAME[name]) for name in ("orphan_rate", "clock_skew")]
        begin = time.monotonic()
        result = notify(store, evaluations, ours, minute(0))
        assert time.monotonic() - begin < 45
    assert set(result.undelivered) == {"alertmanager 1", "alertmanager 2", "apprise messaging 2"}
    assert len(hook.bodies("/chat")) == 2


def test_without_sinks_an_alert_is_logged_and_stays_pending(store, hook, caplog):
    notify(store, [found(("a", False))], settings(), minute(0))
    assert f"alert: prod:marts.orphan_rate:orphan_rate:a: prod/a: {ORPHANS}" in caplog.text
    notify(store, [], settings(apprise={"messaging": [f"json://{hook.url}/late"]}), minute(60))
    assert len(hook.bodies("/late")) == 1


LOGS = """
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from spark_jobs.alerts import file_store
from spark_jobs.alerts.notify import notify
from spark_jobs.settings import Settings
from tests.checks.test_alerts import found
for hour, passed in ((9, False), (12, True)):
    store = partial(file_store.change, Path("alerts.json"))
    notify(store, [found(("a", passed))], Settings(environment="prod"), datetime(2026, 11, 20, hour, 12, tzinfo=UTC))
"""


def test_the_log_of_a_job_shows_what_opened_and_what_was_resolved(tmp_path):
    """A job sets up no logging, so it shows warnings alone."""
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    job = [sys.executable, "-c", LOGS]
    shown = subprocess.run(
        job, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stderr
    opened, resolved = shown.splitlines()
    assert opened.startswith("alert: prod:marts.orphan_rate:orphan_rate:a: prod/a: not proven: ")
    assert resolved.startswith("resolved after 3 h: prod:marts.orphan_rate:orphan_rate:a: prod/a: not proven")


def minutes_to(time: str) -> int:
    return round((datetime.fromisoformat(time) - datetime.now(UTC)) / timedelta(minutes=1))


def test_a_pending_resolution_does_not_resolve_an_alert_that_reopened(hook):
    """It ended while Alertmanager was away, which takes the last of the same labels."""
    kept: list[Alert] = []

    def store(to):
        kept[:] = to(kept)
        return list(kept)

    ours = settings(alertmanager=[f"http://{hook.url}"], apprise={"messaging": [f"json://{hook.url}/chat"]})
    notify(store, [found(("a", False), ("b", False))], ours, minute(0))
    hook.answers = [500] * 6
    assert len(notify(store, [found(("a", True), ("b", True))], ours, minute(5)).undelivered) == 2
    hook.requests.clear()
    notify(store, [found(("a", False), ("b", True))], ours, minute(10))
    notify(store, [found(("a", False), ("b", True))], ours, minute(15))
    first, second = (
        [(alert["labels"]["entity"], minutes_to(alert["endsAt"])) for alert in body]
        for body in hook.bodies("/api/v2/alerts")
    )
    assert first == [("a", 15), ("b", 0)]
    assert second == [("a", 15)]
    assert [body["title"].partition(":")[0] for body in hook.bodies("/chat")] == [
        "[RESOLVED] prod/b",
        "[WARNING] prod/a",
    ]


def test_a_resolution_is_not_sent_without_its_alert(store, hook):
    for passed in (False, True):
        notify(store, [found(("old", passed))], settings(), minute(int(passed)))
    notify(store, [found(("new", False))], settings(), minute(2))
    ours = settings(alertmanager=[f"http://{hook.url}"], apprise={"messaging": [f"json://{hook.url}/chat"]})
    notify(store, [], ours, minute(5))
    ((sent,),) = hook.bodies("/api/v2/alerts")
    (chat,) = hook.bodies("/chat")
    assert (sent["labels"]["entity"], "new" in chat["title"]) == ("new", True)


@pytest.mark.parametrize(
    "sinks",
    [
        {"apprise": {"messaging": ["json://user:hush-7@{url}/tok-9"]}},
        {"alertmanager": ["http://user:hush-7@{url}/tok-9"]},
        {"apprise": {"messaging": ["nosuchservice://hush-7/tok-9"]}},
        {"alertmanager": ["http://hush-7:tok-9"]},
    ],
    ids=["apprise", "alertmanager", "unknown_service", "no_url"],
)
@pytest.mark.parametrize("answers", [200, 500, 404])
def test_a_secret_in_an_address_is_never_shown(tmp_path, hook, caplog, capfd, sinks, answers):
    text = {name: repr(value).replace("{url}", hook.url) for name, value in sinks.items()}
    ours = settings(**{name: eval(value) for name, value in text.items()})  # noqa: S307
    hook.answers = [answers] * 3
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "alerts.json"
    result = notify(partial(file_store.change, file), [found(("a", False))], ours, minute(0))
    shown = [
        caplog.text,
        file.read_text(),
        repr(result),
        repr(ours),
        str(ours.model_dump()),
        *capfd.readouterr(),
    ]
    assert not [secret for secret in SECRETS for each in shown if secret in each]
    if answers != 200:
        assert set(result.undelivered) & {"apprise messaging 1", "alertmanager 1"}


def test_notifications_are_sent_on_a_full_disk(tmp_path, store, hook, caplog):
    os.symlink("/dev/full", tmp_path / f"alerts.{os.getpid()}.new")
    ours = settings(apprise={"messaging": [f"json://{hook.url}/chat"]}, alertmanager=[f"http://{hook.url}"])
    with pytest.raises(StateNotSavedError, match="No space left on device"):
        notify(store, [found(("a", False))], ours, minute(0))
    (chat,) = hook.bodies("/chat")
    assert "the alerts could not be saved: OSError" in chat["message"]
    ((sent,),) = hook.bodies("/api/v2/alerts")
    assert (sent["labels"]["entity"], "No space left" in sent["annotations"]["description"]) == ("a", True)
    assert "may be sent again" in caplog.text


@pytest.mark.parametrize("damage", ["", "[{", "[7]", '[{"identity": "x"}]', '{"a": 1}', "null"])
def test_notifications_are_sent_with_a_damaged_file_store(tmp_path, store, hook, caplog, damage):
    (tmp_path / "alerts.json").write_text(damage)
    ours = settings(apprise={"messaging": [f"json://{hook.url}/chat"]})
    for n in range(2):
        notify(store, [found(("a", False))], ours, minute(5 * n))
    assert len(hook.bodies("/chat")) == 1
    assert "alerts.json cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRACE_ALERTS__APPRISE", "slack://hush-7/tok-9"),
        ("TRACE_ALERTS__APPRISE", '["slack://hush-7/tok-9"]'),
        ("TRACE_ALERTS__APPRISE", '{"pipeline": "slack://hush-7/tok-9"}'),
        ("TRACE_ALERTS__ALERTMANAGER", '"http://hush-7:tok-9@am"'),
        ("TRACE_ALERTS__HEARTBEAT", "https://hush-7/tok-9"),
        ("TRACE_ALERTS", '{"heartbeat": "https://hush-7/tok-9"}'),
        ("TRACE_ALERTS", "heartbeat=https://hush-7/tok-9"),
    ],
)
def test_rejected_settings_show_no_secret(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises((ValueError, SettingsError)) as refused:
        Settings()
    shown = "".join(traceback.format_exception(refused.value))
    assert not [secret for secret in SECRETS if secret in shown]
    assert "alerts" in shown.lower(), "it says which setting"


def test_the_file_store_round_trip(store):
    ours = settings()
    notify(store, [found(("a", False), ("b", False))], ours, minute(0))
    notify(store, [found(("a", True), ("b", False))], ours, minute(1))
    again = store(lambda alerts: alerts)
    assert [(a.entity, a.state) for a in again] == [("b", "open"), ("a", "resolved")]
    assert asdict(again[1])["resolved_at"] == minute(1)


@needs_alertmanager
def test_unreachable_brokers_notify_once_with_the_inhibition_rules_of_the_docs(store, hook, tmp_path):
    """What follows from the failed task is kept back while that stands, and goes out when it alone is over."""
    shown = re.search(r"```yaml\n(.*?)```", (PROJECT / "docs" / "checks.md").read_text(), re.DOTALL)
    config = yaml.safe_load(dedent(shown[1]))
    config["route"] |= {"group_wait": "1s", "group_interval": "1s"}  # minutes, by default
    failed = found(("trace_ingest/extracted/c1", False), check=BY_NAME["task_failed"])
    follow = {"lag", "ingest_silent", "freshness_raw", "freshness_events", "freshness_marts"}
    others = {"retention_headroom", "orphan_rate", "marts_silent"}
    late = [found(("c1", False), check=BY_NAME[name]) for name in sorted(follow | others)]

    def notified_of(receiver: str) -> set[str]:
        return {body["groupLabels"]["alertname"] for body in hook.bodies(f"/{receiver}")}

    with alertmanager(tmp_path / "am", hook.url, "1m", config, ("pipeline", "messaging")) as url:
        ours = settings(alertmanager=[url])
        notify(store, [failed, *late], ours, datetime.now(UTC))
        first = {"task_failed", "retention_headroom", "marts_silent"}
        until(lambda: notified_of("pipeline") >= first, 20, "no notification was sent")
        time.sleep(3)
        assert (notified_of("pipeline"), notified_of("messaging")) == (first, {"orphan_rate"})
        over = found(("trace_ingest/extracted/c1", True), check=BY_NAME["task_failed"])
        notify(store, [over, *late], ours, datetime.now(UTC))
        until(lambda: notified_of("pipeline") == first | follow, 20, "what still stands did not go out")


def test_the_link_to_the_messages_is_sent(store, hook, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")
    ours = settings(alertmanager=[f"http://{hook.url}"], apprise={"messaging": [f"json://{hook.url}/chat"]})
    notify(store, [found(("c1/orders/g", False))], ours, minute(0))
    page = (
        "https://airflow.example.com/trace-warehouse/messages?cluster=c1&topic=orders&group=g&state=orphaned"
    )
    ((alert,),) = hook.bodies("/api/v2/alerts")
    assert alert["annotations"]["messages_url"].startswith(page)
    (chat,) = hook.bodies("/chat")
    assert f"messages: {page}" in chat["message"]
