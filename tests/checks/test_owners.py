"""The seed `owners`: whose alerts are whose, how severe they are at most, and where they go."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from spark_jobs.alerts.alert import Alert, advance
from spark_jobs.alerts.sinks import sink
from spark_jobs.alerts.sinks.apprise import grouped, text
from spark_jobs.checks import owners
from spark_jobs.checks.check import Measured, judge
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import Alerts, Settings

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SLACK = SecretStr("json://nowhere")
SETTINGS = Settings(environment="prod", alerts=Alerts(apprise={"messaging": [SLACK], "mail": [SLACK]}))


@pytest.fixture
def seed(tmp_path, monkeypatch):
    def write(*rows: str) -> owners.Owners:
        file = tmp_path / "owners.csv"
        file.write_text("\n".join([owners.SEED.read_text().strip(), *rows]) + "\n")
        monkeypatch.setattr(owners, "SEED", file)
        return owners.read()

    return write


def opened(check: str, entity: str, found: owners.Owners, severity=None) -> Alert:
    evaluation = judge(BY_NAME[check], [Measured(entity, 1e9)], SETTINGS)
    evaluation = replace(evaluation, severity=severity or evaluation.severity)
    (alert,) = advance([], [evaluation], SETTINGS, NOW, found)
    return alert


def test_an_alert_belongs_to_the_owner_of_the_group_or_else_of_the_topic(seed):
    found = seed("c,orders,,sales,,", "c,,mail-group,mail,,mail", "other,orders,,others,,")
    of = {
        entity: (alert.owner, alert.route)
        for entity in ("c/orders/mail-group", "c/orders/billing", "c/refunds/billing", "c")
        for alert in [opened("orphan_rate", entity, found)]
    }
    assert of == {
        "c/orders/mail-group": ("mail", "mail"),
        "c/orders/billing": ("sales", "messaging"),
        "c/refunds/billing": ("data-platform", "messaging"),
        "c": ("data-platform", "messaging"),
    }
    assert opened("duplicate_rate", "c/mail-group", found).owner == "mail"


def test_checks_of_the_warehouse_itself_have_the_owner_of_the_settings(seed):
    found = seed("c,traces,,sales,info,mail")
    alert = opened("lag", "c/traces/broker-a/0", found)
    assert (alert.owner, alert.severity, alert.route) == ("data-platform", "warning", "pipeline")


@pytest.mark.parametrize(
    ("of_owner", "of_check", "expected"),
    [
        ("", "warning", "warning"),
        ("info", "warning", "info"),
        ("warning", "critical", "warning"),
        ("critical", "warning", "warning"),  # critical needs proof, which the owner does not give
    ],
)
def test_the_owners_severity_lowers_that_of_the_check(seed, of_owner, of_check, expected):
    found = seed(f"c,orders,,sales,{of_owner},")
    assert opened("orphan_rate", "c/orders/g", found, of_check).severity == expected


def test_a_route_without_recipient_is_reported_and_not_used(seed):
    found = seed("c,orders,,sales,,nobody")
    assert opened("orphan_rate", "c/orders/g", found).route == "messaging"
    unused, nobody = sink.missing(SETTINGS.alerts)[-2:]
    assert "alerts.apprise.mail is sent nothing" in unused
    assert "alerts.apprise.nobody" in nobody


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ("c,orders,group,sales,,", "either a topic or a consumer_group"),
        ("c,orders,,,,", "a team"),
        ("c,orders,,sales,fatal,", "severity is critical, warning, info"),
    ],
)
def test_an_invalid_row_is_reported_with_its_line(seed, row, part):
    with pytest.raises(ValueError, match=part):
        seed(row)
    assert any("orders" in line and part in line for line in sink.missing(SETTINGS.alerts))


def test_a_header_without_a_column_is_reported(tmp_path):
    file = tmp_path / "owners.csv"
    file.write_text("cluster,topic,team\nc,orders,sales\n")
    with pytest.raises(ValueError, match="lacks consumer_group, severity, route"):
        owners.read(file)


def test_each_owner_gets_a_message_of_its_own(seed):
    found = seed("c,orders,,sales,,", "c,mails,,mail,info,")
    alerts = [opened("orphan_rate", f"c/{topic}/g", found) for topic in ("orders", "mails", "orders")]
    texts = [text(group) for group in grouped(alerts)]
    assert [title[:9] for title, _ in texts] == ["[WARNING]", "[INFO] pr"]
    assert ["owner: sales" in texts[0][1], "owner: mail" in texts[1][1]] == [True, True]
