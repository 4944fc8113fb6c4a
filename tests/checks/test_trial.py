"""A test alert per route reaches the sinks that take it, and what does not take it is named."""

from __future__ import annotations

import json

import pytest

from spark_jobs.checks import owners
from spark_jobs.jobs import alert_test
from tests.checks.loopback import alertmanager, needs_alertmanager, receiver, until

SECRET = "hush-7"


@pytest.fixture
def sinks(monkeypatch):
    """Set the sinks of the settings."""

    def given(apprise: dict[str, list[str]], alertmanagers: list[str]) -> None:
        monkeypatch.setenv("TRACE_ENVIRONMENT", "prod")
        monkeypatch.setenv("TRACE_ALERTS__APPRISE", json.dumps(apprise))
        monkeypatch.setenv("TRACE_ALERTS__ALERTMANAGER", json.dumps(alertmanagers))

    return given


def printed(capsys) -> dict[tuple[str, str], str]:
    """Route and sink to the result, of the table."""
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    return {(route.strip(), sink.strip()): result.strip() for route, sink, result in rows}


@needs_alertmanager
def test_each_route_reaches_its_sinks(sinks, tmp_path, monkeypatch, capsys):
    seed = tmp_path / "owners.csv"
    seed.write_text(owners.SEED.read_text().strip() + "\nprod,orders,,sales,,mail\n")
    monkeypatch.setattr(owners, "SEED", seed)
    with receiver() as hook, receiver() as away, alertmanager(tmp_path / "am", hook.url, "1m") as url:
        away.answers = [500] * 3
        sinks(
            {
                "mail": [f"json://{hook.url}/mail"],
                "pipeline": [f"json://user:{SECRET}@{away.url}/x", f"json://{hook.url}/y"],
            },
            [url],
        )
        assert alert_test.main([]) == 1
        found = printed(capsys)
        assert found == {
            ("mail", "alertmanager 1"): "accepted",
            ("mail", "apprise mail 1"): "accepted",
            ("messaging", "alertmanager 1"): "accepted",
            ("pipeline", "alertmanager 1"): "accepted",
            ("pipeline", "apprise pipeline 1"): "failed: refused, 3 times",
            ("pipeline", "apprise pipeline 2"): "accepted",
        }
        assert SECRET not in str(found)
        (mail,) = hook.bodies("/mail")
        assert mail["title"] == "[WARNING] prod: test alert of the route mail"
        assert "Nothing is wrong" in mail["message"]
        until(lambda: len(hook.bodies("/hook")) == 3, 20, "Alertmanager did not send them on")
        labels = [body["alerts"][0]["labels"] for body in hook.bodies("/hook")]
        assert {label["route"] for label in labels} == {"mail", "messaging", "pipeline"}
        assert {label["alertname"] for label in labels} == {"alert_test"}
        assert alert_test.main(["--route", "mail"]) == 0
        assert len(hook.bodies("/mail")) == 2


def test_a_route_that_reaches_nobody_is_named(sinks, capsys):
    with receiver() as hook:
        sinks({"pipeline": [f"json://{hook.url}/chat"]}, [])
        assert alert_test.main([]) == 1
        shown = capsys.readouterr().out
    assert "no sink takes this route" in shown
    assert "alerts of messaging reach nobody: set alerts.alertmanager, or alerts.apprise.messaging" in shown


def test_an_unknown_route_is_refused(sinks):
    sinks({}, [])
    with pytest.raises(ValueError, match="there is no route chat: the routes are messaging, pipeline"):
        alert_test.main(["--route", "chat"])
