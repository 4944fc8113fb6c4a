"""Alertmanager's API v2. It resolves an alert that is not resent, so every run sends all open alerts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import SecretStr

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.messages import MessagesPage
from spark_jobs.alerts.sinks.http import clock_of, request

log = logging.getLogger(__name__)

KEPT_INTERVALS = 3


def send(
    url: SecretStr, alerts: Sequence[Alert], interval_seconds: int, messages: MessagesPage | None = None
) -> None:
    """Post the alerts to one Alertmanager, with `endsAt` of open ones `KEPT_INTERVALS` after now.

    Raises:
        DeliveryError: it did not accept them.
    """
    if alerts:
        now = _their_time(url, interval_seconds)
        sent = [payload(alert, interval_seconds, now, messages) for alert in alerts]
        request("POST", url, "/api/v2/alerts", sent)


def _their_time(url: SecretStr, interval_seconds: int) -> datetime:
    """The time on Alertmanager's clock if the two clocks differ too much, as it compares `endsAt` with its own clock."""
    theirs, now = clock_of(url), datetime.now(UTC)
    if theirs is None or abs(theirs - now) <= timedelta(seconds=max(interval_seconds, 10)):
        return now
    log.warning(
        "the clocks of this machine and of Alertmanager differ by %.0f s", (theirs - now).total_seconds()
    )
    return theirs


def payload(
    alert: Alert, interval_seconds: int, now: datetime, messages: MessagesPage | None = None
) -> dict[str, object]:
    """An alert in the format of API v2. The labels are its identity there, so they never change while it is open."""
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
    link = messages.link([alert]) if messages else None
    kept = now + timedelta(seconds=KEPT_INTERVALS * interval_seconds)
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {
            "identity": alert.identity,
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": alert.runbook_url,
            **({"messages_url": link} if link else {}),
        },
        # Alertmanager rejects an alert that ends before it starts; the clock may have been set back.
        "startsAt": min(alert.first_failed_at, now).isoformat(),
        "endsAt": (kept if alert.is_open else now).isoformat(),
    }
