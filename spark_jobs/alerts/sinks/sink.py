"""Sinks: each Alertmanager and each Apprise address is one, with deliveries of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import SecretStr

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.messages import MessagesPage
from spark_jobs.alerts.sinks import alertmanager, apprise
from spark_jobs.checks import owners
from spark_jobs.settings import Alerts, Route


@dataclass(frozen=True)
class Sink:
    """A receiver of notifications.

    Attributes:
        name: written to `lake.ops.alerts`; contains no address.
        kind: its protocol.
        address: its URL, a secret.
        route: the alerts that are sent there; None for all.
        messages: the page that an alert on messaging links to; None for no link.
    """

    name: str
    kind: Literal["alertmanager", "apprise"]
    address: SecretStr
    route: str | None = None
    messages: MessagesPage | None = None

    def lacks(self, alert: Alert) -> bool:
        """Whether the sink must still be sent the alert, or its resolution."""
        return (self.route is None or alert.route == self.route) and alert.waits_for(self.name)

    def send(self, alerts: Sequence[Alert], due: Sequence[Alert], interval_seconds: int) -> list[Alert]:
        """Send what is due; return the alerts that were accepted or need not be sent (resolutions of alerts open again).

        Args:
            alerts: all alerts: every run sends the open ones to Alertmanager, which resolves them otherwise.
            due: the alerts that this run delivers.
            interval_seconds: maximum time until the next run.

        Raises:
            DeliveryError: none was accepted.
        """
        standing = [alert for alert in alerts if alert.announced and alert.is_open]
        back = {alert.identity for alert in standing}
        lacking = [alert for alert in due if self.lacks(alert)]
        overtaken = [alert for alert in lacking if not alert.is_open and alert.identity in back]
        lacking = [alert for alert in lacking if alert not in overtaken]
        if self.kind == "apprise":
            return [*overtaken, *apprise.send(self.address, lacking, self.messages)]
        # A resolution has the labels of the alert that is open again, and the last one with these labels counts.
        ended = [alert for alert in lacking if not alert.is_open]
        sent = [*standing, *ended]
        alertmanager.send(self.address, sent, interval_seconds, self.messages)
        return [*overtaken, *(alert for alert in sent if self.lacks(alert))]


def missing(alerts: Alerts) -> list[str]:
    """The settings that are missing for notifications, one line each."""
    lines = []
    if alerts.heartbeat_url is None:
        lines.append("nothing outside this machine notices when it is off: set alerts.heartbeat_url")
    if not configured(alerts):
        lines.append("alerts have no recipient: set alerts.alertmanager or alerts.apprise")
    elif not any(sink.route in (None, "pipeline") for sink in configured(alerts)):
        lines.append("alerts of the route pipeline have no recipient: set alerts.apprise.pipeline")
    try:
        routes = owners.read().routes
    except ValueError as error:
        return [*lines, f"alerts have the owner of the settings, as the seed owners cannot be used: {error}"]
    lines += [
        f"alerts.apprise.{route} is sent nothing: neither a check nor the seed owners has that route"
        for route in sorted(set(alerts.apprise) - routes - set(get_args(Route)))
    ]
    lines += [
        f"alerts of the route {route} (seed owners) go to the route of their check: set alerts.apprise.{route}"
        for route in sorted(routes)
        if configured(alerts) and not alerts.reach(route)
    ]
    return lines


def configured(alerts: Alerts, messages: MessagesPage | None = None) -> list[Sink]:
    """The sinks of the settings, which link to a page of messages."""
    found = [
        Sink(f"alertmanager {n}", "alertmanager", url, messages=messages)
        for n, url in enumerate(alerts.alertmanager, 1)
    ]
    for route, addresses in sorted(alerts.apprise.items()):
        found += [
            Sink(f"apprise {route} {n}", "apprise", url, route, messages)
            for n, url in enumerate(addresses, 1)
        ]
    return found
