"""Where alerts go: each Alertmanager and each Apprise address is a sink of its own, with its own deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.sinks import alertmanager, apprise
from spark_jobs.settings import Alerts, Route


@dataclass(frozen=True)
class Sink:
    """A place to tell.

    Attributes:
        name: stands in `lake.ops.alerts`; holds no address.
        kind: what is spoken there.
        address: where.
        route: the alerts that go there; None: all.
    """

    name: str
    kind: Literal["alertmanager", "apprise"]
    address: SecretStr
    route: Route | None = None

    def lacks(self, alert: Alert) -> bool:
        """The sink has still to be told of the alert, or of its end."""
        return (self.route is None or alert.route == self.route) and alert.waits_for(self.name)

    def send(self, alerts: Sequence[Alert], due: Sequence[Alert], interval_seconds: int) -> list[Alert]:
        """Tell what it lacks; returns what it took, or need not be told: the end of a fault that is back again.

        Args:
            alerts: all there are: Alertmanager is sent the open ones by every run, or it forgets them.
            due: those that this run is to deliver.
            interval_seconds: at most so long until the next run.

        Raises:
            DeliveryError: it took none.
        """
        standing = [alert for alert in alerts if alert.announced and alert.is_open]
        back = {alert.identity for alert in standing}
        lacking = [alert for alert in due if self.lacks(alert)]
        overtaken = [alert for alert in lacking if not alert.is_open and alert.identity in back]
        lacking = [alert for alert in lacking if alert not in overtaken]
        if self.kind == "apprise":
            return [*overtaken, *apprise.send(self.address, lacking)]
        # An end has the labels of the fault that is back, and the last of the same labels counts.
        ended = [alert for alert in lacking if not alert.is_open]
        sent = [*standing, *ended]
        alertmanager.send(self.address, sent, interval_seconds)
        return [*overtaken, *(alert for alert in sent if self.lacks(alert))]


def missing(alerts: Alerts) -> list[str]:
    """What the settings lack for somebody to hear of a fault, a line each."""
    lines = []
    if alerts.heartbeat_url is None:
        lines.append("nothing outside this machine notices when it is off: set alerts.heartbeat_url")
    if not configured(alerts):
        lines.append("alerts are sent to nobody: set alerts.alertmanager or alerts.apprise")
    elif not any(sink.route in (None, "pipeline") for sink in configured(alerts)):
        lines.append("alerts of the route pipeline are sent to nobody: set alerts.apprise.pipeline")
    return lines


def configured(alerts: Alerts) -> list[Sink]:
    """The sinks of the settings."""
    found = [Sink(f"alertmanager {n}", "alertmanager", url) for n, url in enumerate(alerts.alertmanager, 1)]
    for route, addresses in sorted(alerts.apprise.items()):
        found += [Sink(f"apprise {route} {n}", "apprise", url, route) for n, url in enumerate(addresses, 1)]
    return found
