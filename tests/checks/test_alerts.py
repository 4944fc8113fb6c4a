"""Alerts as a function of check results: each opens once and is resolved once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from spark_jobs.alerts.alert import Alert, advance, retire
from spark_jobs.alerts.messages import MessagesPage
from spark_jobs.alerts.sinks.alertmanager import payload
from spark_jobs.alerts.sinks.apprise import LISTED, grouped, inert, text
from spark_jobs.alerts.sinks.sink import Sink, configured
from spark_jobs.checks.check import Evaluation, Measured, could_not_be_made, judge
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import PROJECT, Alerts, MaintenanceWindow, Settings

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
CHECK = BY_NAME["orphan_rate"]
SETTINGS = Settings(environment="prod")
SINK = Sink("apprise messaging 1", "apprise", SecretStr("json://nowhere"), "messaging")

VERDICTS = {True: "pass", False: "compare", None: "unknown"}


def minute(n: float) -> datetime:
    return START + timedelta(minutes=n)


def found(*results: tuple[str, bool | None], complete: bool = True, check=CHECK) -> Evaluation:
    """An evaluation in which each entity passed, failed, or was not judged."""
    beyond = 5e6 if check.fails == "above" else -1.0
    measured = [
        Measured(entity, beyond if passed is False else 0.0, verdict=VERDICTS[passed])
        for entity, passed in results
    ]
    return replace(judge(check, measured, SETTINGS), complete=complete)


def states(alerts: list[Alert]) -> list[tuple[str | None, str, str | None]]:
    return [(alert.entity, alert.state, alert.resolution) for alert in alerts]


def test_an_alert_identity_contains_no_run_and_no_time():
    first = advance([], [found(("a", False), ("b", True))], SETTINGS, minute(0))
    again = advance(first, [found(("a", False), ("b", True))], SETTINGS, minute(5))
    assert states(again) == [("a", "open", None)]
    (alert,) = again
    assert alert.identity == "prod:marts.orphan_rate:orphan_rate:a"
    assert (alert.first_failed_at, alert.last_seen_at) == (minute(0), minute(5))
    assert alert.runbook_url == "docs/runbooks/orphan_rate.md"
    assert (alert.severity, alert.route, alert.kind) == ("warning", "messaging", "messaging")


def test_new_messages_that_are_whole_end_no_failure_of_earlier_ones():
    """A check of new messages only opens alerts; a check of all recent ones resolves them."""
    alerts = advance([], [found(("a", False))], SETTINGS, minute(0))
    new = replace(found(("a", True), ("b", False), complete=False), partial=True)
    alerts = advance(alerts, [new], SETTINGS, minute(1))
    assert states(alerts) == [("a", "open", None), ("b", "open", None)]
    alerts = advance(alerts, [found(("a", True))], SETTINGS, minute(2))
    assert states(alerts) == [("a", "resolved", "passed"), ("b", "resolved", "retired")]


def test_an_alert_is_resolved_when_the_entity_passes_or_is_retired():
    alerts = advance([], [found(("a", False), ("b", False), ("c", False))], SETTINGS, minute(0))
    alerts = advance(alerts, [found(("a", True), ("c", None))], SETTINGS, minute(5))
    assert states(alerts) == [("a", "resolved", "passed"), ("b", "resolved", "retired"), ("c", "open", None)]
    assert alerts[0].resolved_at == minute(5)
    back = advance(alerts, [found(("a", False), ("c", None))], SETTINGS, minute(9))
    assert states(back)[-1] == ("a", "open", None)
    assert len(back) == 4


def test_a_check_without_entities_retires_all_alerts_and_a_check_that_raised_none():
    alerts = advance([], [found(("a", False))], SETTINGS, minute(0))
    broken = could_not_be_made(CHECK, ValueError("no table"), SETTINGS)
    during = advance(alerts, [broken], SETTINGS, minute(1))
    assert states(during) == [("a", "open", None), (None, "open", None)]
    assert states(advance(during, [found()], SETTINGS, minute(2))) == [
        ("a", "resolved", "retired"),
        (None, "resolved", "passed"),
    ]


def test_checks_do_not_change_alerts_of_others_and_disabled_checks_are_retired():
    alerts = advance([], [found(("a", False))], SETTINGS, minute(0))
    assert advance(alerts, [found(check=BY_NAME["duplicate_rate"])], SETTINGS, minute(1)) == alerts
    assert retire(alerts, ["duplicate_rate"], minute(2)) == alerts
    assert states(retire(alerts, ["orphan_rate"], minute(2))) == [("a", "resolved", "retired")]


def test_a_late_evaluation_does_not_change_newer_state():
    alerts = advance([], [found(("a", False), ("b", False))], SETTINGS, minute(5))
    assert advance(alerts, [found(("a", True))], SETTINGS, minute(4)) == alerts
    over = advance(alerts, [found(("a", True), ("b", False))], SETTINGS, minute(6))
    assert advance(over, [found(("a", False), ("b", None))], SETTINGS, minute(5)) == over


def test_a_maintenance_window_delays_alerts_that_open_in_it():
    window = MaintenanceWindow(start=minute(0), end=minute(10), match="prod:*:orphan_rate:[ab]")
    ours = SETTINGS.model_copy(update={"alerts": Alerts(maintenance=[window])})
    alerts = advance([], [found(("a", False), ("b", False), ("c", False))], ours, minute(5))
    assert [alert.announced for alert in alerts] == [False, False, True]
    alerts = advance(alerts, [found(("a", True), ("b", False), ("c", False))], ours, minute(10))
    assert [(a.state, a.announced) for a in alerts] == [("resolved", False), ("open", True), ("open", True)]
    assert [SINK.lacks(alert) for alert in alerts] == [False, True, True]


ENTITIES = ("a", "b", "c")
ROUND = st.tuples(
    st.dictionaries(st.sampled_from(ENTITIES), st.sampled_from([True, False, None])),
    st.booleans(),  # complete
    st.booleans(),  # maintenance
    st.booleans(),  # the sink answers
)


# Drawing may be slow on a busy machine.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROUND, max_size=25))
def test_each_alert_and_its_resolution_is_sent_exactly_once(rounds):
    """Against a model that knows only which entity fails now."""
    alerts: list[Alert] = []
    failing: set[str] = set()
    result: list[tuple[str, datetime, str]] = []
    for n, (passed, complete, maintenance, answers) in enumerate(rounds):
        window = MaintenanceWindow(start=minute(n), end=minute(n + 0.5))
        ours = SETTINGS.model_copy(update={"alerts": Alerts(maintenance=[window] if maintenance else [])})
        alerts = advance(alerts, [found(*passed.items(), complete=complete)], ours, minute(n))
        failing |= {entity for entity, result in passed.items() if result is False}
        failing -= {entity for entity, result in passed.items() if result}
        if complete:
            failing &= set(passed)
        assert sorted(a.entity for a in alerts if a.is_open) == sorted(failing)
        if not answers:
            continue
        for k, alert in enumerate(alerts):
            if SINK.lacks(alert):
                result.append((alert.identity, alert.first_failed_at, alert.state))
                column = "opened_sent_to" if alert.is_open else "resolved_sent_to"
                alerts[k] = replace(alert, **{column: (SINK.name,)})
    assert len(result) == len(set(result))
    ends = {each[:2] for each in result if each[2] == "resolved"}
    for alert in alerts:
        fault = (alert.identity, alert.first_failed_at)
        assert ((*fault, "open") in result) == (SINK.name in alert.opened_sent_to)
        if not alert.announced:  # it came and went in a maintenance window
            assert fault not in {each[:2] for each in result}
        if alert.is_open:
            assert fault not in ends


def test_a_sink_receives_the_alerts_of_its_route():
    (alert,) = advance([], [found(("a", False))], SETTINGS, minute(0))
    assert SINK.lacks(alert)
    assert not replace(SINK, route="pipeline").lacks(alert)
    assert replace(SINK, route=None).lacks(alert)
    ours = Alerts(
        alertmanager=["http://a", "http://b"], apprise={"pipeline": ["json://c"], "messaging": ["json://d"]}
    )
    assert [(s.name, s.route) for s in configured(ours)] == [
        ("alertmanager 1", None),
        ("alertmanager 2", None),
        ("apprise messaging 1", "messaging"),
        ("apprise pipeline 1", "pipeline"),
    ]


def test_many_entities_of_one_check_are_one_message():
    names = [f"c1/t{n}/g" for n in range(LISTED + 5)]
    alerts = advance([], [found(*((name, False) for name in names))], SETTINGS, minute(0))
    alerts = advance(alerts, [found(*((name, name != names[3]) for name in names))], SETTINGS, minute(75))
    over, standing = sorted(grouped(alerts), key=len, reverse=True)
    assert (len(over), len(standing)) == (LISTED + 4, 1)
    title, body = text(over)
    what = "not proven: 500,000,000 % of the messages of {} have no trace of a consumption by g, limit 1 %"
    assert title == f"[RESOLVED] prod/c1: {what.format('t0')} (and {LISTED + 3} more)"
    assert body.splitlines()[0].startswith(f"- prod/c1: {what.format('t0')}: ")
    assert "(since 2026-11-20 12:00 UTC, resolved after 1 h 15 min)" in body
    assert "- and 4 more: see lake.ops.alerts" in body
    assert body.endswith("what to do: docs/runbooks/orphan_rate.md")
    assert text(standing)[0] == f"[WARNING] prod/c1: {what.format('t3')}"


def test_alertmanager_keeps_an_open_alert_for_three_intervals():
    (alert,) = advance([], [found(("a", False))], SETTINGS, minute(0))
    sent = payload(alert, 300, minute(7))
    assert datetime.fromisoformat(sent["endsAt"]) == minute(7 + 15)
    assert sent["startsAt"] == minute(0).isoformat()
    again = payload(advance([alert], [found(("a", False))], SETTINGS, minute(9))[0], 300, minute(9))
    assert again["labels"] == sent["labels"]
    (over,) = advance([alert], [found(("a", True))], SETTINGS, minute(8))
    assert datetime.fromisoformat(payload(over, 300, minute(8))["endsAt"]) == minute(8)


def test_the_link_of_an_alert_opens_where_airflows_address_is_known(monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/trace/")
    (alert,) = advance([], [found(("a", False))], Settings(), minute(0))
    assert alert.runbook_url == "https://airflow.example.com/trace/trace-warehouse/runbooks/orphan_rate.md"


@pytest.mark.parametrize("check", BY_NAME.values(), ids=list(BY_NAME))
def test_the_link_of_an_alert_is_its_runbook(check):
    ours = Settings(alerts=Alerts(runbook_base_url="https://git.example.com/docs/runbooks/"))
    (alert,) = advance([], [found(("a", False), check=check)], ours, minute(0))
    assert alert.runbook_url == f"https://git.example.com/docs/runbooks/{check.name}.md"


def test_orphans_without_proof_are_a_warning():
    """Groups that filter, timer messages and recalls raise the rate; the runbook says so."""
    assert (CHECK.severity, CHECK.route) == ("warning", "messaging")
    assert CHECK.definition.startswith("Not proven: ")
    runbook = (PROJECT / "docs" / "runbooks" / "orphan_rate.md").read_text()
    assert all(word in runbook for word in ("no proof", "by tag", "Timer messages", "Recalls"))


def test_an_alert_on_messaging_links_to_its_messages_where_airflows_address_is_known(monkeypatch):
    names = ("c1/t1/g", "c1/t2/g")
    alerts = advance([], [found(*((name, False) for name in names))], SETTINGS, minute(0))
    assert MessagesPage.of(SETTINGS) is None
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/trace/")
    messages = MessagesPage.of(SETTINGS)
    page = "https://airflow.example.com/trace/trace-warehouse/messages?cluster=c1"
    time = "state=orphaned&from=2026-11-19T12%3A00&to=2026-11-20T12%3A00"
    of_first = f"{page}&topic=t1&group=g&{time}"
    assert payload(alerts[0], 300, minute(0), messages)["annotations"]["messages_url"] == of_first
    assert "messages_url" not in payload(alerts[0], 300, minute(0))["annotations"]
    assert f"messages: {of_first}" in text(alerts[:1], inert, messages)[1].splitlines()
    assert f"messages: {page}&group=g&{time}" in text(alerts, inert, messages)[1].splitlines()
    (lag,) = advance([], [found(("c1/t/b/0", False), check=BY_NAME["lag"])], SETTINGS, minute(0))
    assert messages.link([lag]) is None
    assert messages.link([replace(alerts[0], entity=f"c1/{'t' * 2000}/g")]) is None
