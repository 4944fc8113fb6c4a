"""deploy/docker/alertmanager.yml in a real Alertmanager: our alerts reach the receivers of their routes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from pydantic import SecretStr

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.sinks import alertmanager as sink
from spark_jobs.settings import PROJECT
from tests.checks.loopback import alertmanager, needs_alertmanager, receiver, until

FILE = PROJECT / "deploy" / "docker" / "alertmanager.yml"


def alert(route: str) -> Alert:
    now = datetime.now(UTC)
    return Alert(
        identity=f"test:events.trace_records:lag:{route}",
        environment="test",
        table="events.trace_records",
        check="lag",
        entity=route,
        kind="freshness",
        severity="critical",
        route=route,
        owner="data-platform",
        runbook_url="https://runbooks.example/lag.md",
        summary=f"lag of {route}",
        description="1,000 messages",
        state="open",
        first_failed_at=now,
        last_seen_at=now,
    )


def config() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())


def test_routes_and_inhibition_rules_are_those_of_the_docs():
    shown = re.search(r"```yaml\n(.*?)```", (PROJECT / "docs" / "checks.md").read_text(), re.DOTALL)
    documented = yaml.safe_load(dedent(shown[1]))
    ours = config()
    assert ours["inhibit_rules"] == documented["inhibit_rules"]
    route, wanted = ours["route"], documented["route"]
    assert (route["receiver"], route["group_by"]) == (wanted["receiver"], wanted["group_by"])
    assert wanted["routes"][0].items() <= route["routes"][0].items()


def test_addresses_are_in_the_secrets_of_the_compose_file():
    secrets = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]["alertmanager"][
        "secrets"
    ]
    files = {of["api_url_file"] for each in config()["receivers"] for of in each["slack_configs"]}
    assert files == {f"/run/secrets/{name}" for name in secrets}
    assert "api_url:" not in FILE.read_text()


@needs_alertmanager
def test_alerts_reach_the_receiver_of_their_route_with_summary_and_runbook(tmp_path: Path):
    ours = config()
    ours["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    with receiver() as hook:
        for each in ours["receivers"]:
            (of,) = each["slack_configs"]
            file = tmp_path / each["name"]
            file.write_text(f"http://{hook.url}/{each['name']}")
            of["api_url_file"] = str(file)
        sent = [alert(route) for route in ("pipeline", "messaging", "payments")]
        with alertmanager(tmp_path / "am", hook.url, "1m", ours) as url:
            sink.send(SecretStr(url), sent, 300)
            until(
                lambda: bool(hook.bodies("/pipeline")) and bool(hook.bodies("/messaging")),
                20,
                "no notification was sent",
            )
            until(
                lambda: "lag of payments" in str(hook.bodies("/pipeline")),
                20,
                "the default route sent nothing",
            )
        assert "lag of messaging" in str(hook.bodies("/messaging"))
        assert "lag of messaging" not in str(hook.bodies("/pipeline"))
        assert "runbook: https://runbooks.example/lag.md" in str(hook.bodies("/pipeline"))
