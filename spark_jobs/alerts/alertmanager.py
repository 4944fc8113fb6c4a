"""Alertmanager's API v2: it forgets an alert that is not sent again, so all that are open are, by every run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import SecretStr

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.http import request

KEPT_INTERVALS = 3


def send(url: SecretStr, alerts: Sequence[Alert], interval_seconds: int, now: datetime) -> None:
    """Post the alerts to one Alertmanager.

    Raises:
        NotDelivered: it did not take them.
    """
    if alerts:
        request("POST", url, "/api/v2/alerts", [payload(alert, interval_seconds, now) for alert in alerts])


def payload(alert: Alert, interval_seconds: int, now: datetime) -> dict[str, object]:
    """An alert as API v2 takes it. Its labels are its identity there: nothing in them may change while it stands."""
    labels = {
        "alertname": alert.check,
        "environment": alert.environment,
        "table": alert.table,
        "entity": alert.entity or "",
        "class": alert.kind,
        "severity": alert.severity,
        "route": alert.route,
        "owner": alert.owner,
    }
    kept = now + timedelta(seconds=KEPT_INTERVALS * interval_seconds)
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {
            "identity": alert.identity,
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": alert.runbook_url,
        },
        "startsAt": alert.first_failed_at.isoformat(),
        # One that ends before it starts is refused.
        "endsAt": (kept if alert.is_open else max(now, alert.first_failed_at)).isoformat(),
    }
