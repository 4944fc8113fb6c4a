"""A test alert per route, to every sink that takes the route. Nothing is stored, and nothing resolves it but Alertmanager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.sinks.http import DeliveryError
from spark_jobs.alerts.sinks.sink import Sink, configured
from spark_jobs.checks import owners
from spark_jobs.settings import Alerts, Route, Settings

CHECK = "alert_test"


@dataclass(frozen=True)
class Delivery:
    """What became of the test alert of a route.

    Attributes:
        route: the route.
        sink: name of a sink that takes it; None if there is none.
        error: why the sink did not accept it; None if it did.
    """

    route: str
    sink: str | None
    error: str | None = None

    @property
    def is_accepted(self) -> bool:
        return self.sink is not None and self.error is None


def routes(alerts: Alerts) -> list[str]:
    """The routes of checks, of the seed `owners`, and of the settings.

    Raises:
        ValueError: the seed cannot be used.
    """
    return sorted({*get_args(Route), *owners.read().routes, *alerts.apprise})


def send(settings: Settings, names: Sequence[str], now: datetime) -> list[Delivery]:
    """Send the test alerts of these routes; return a delivery per route and sink, in the order of the routes."""
    sinks, found = configured(settings.alerts), list[Delivery]()
    for route in names:
        taking = [sink for sink in sinks if sink.route in (None, route)]
        found += [_sent(sink, _alert(settings, route, now), settings) for sink in taking]
        if not taking:
            found.append(Delivery(route, None))
    return found


def _sent(sink: Sink, alert: Alert, settings: Settings) -> Delivery:
    try:
        sink.send([alert], [alert], settings.alerts.interval_seconds)
    except DeliveryError as error:
        return Delivery(alert.route, sink.name, str(error))
    return Delivery(alert.route, sink.name)


def _alert(settings: Settings, route: str, now: datetime) -> Alert:
    return Alert(
        identity=f"{settings.environment}:{CHECK}:{route}",
        environment=settings.environment,
        table="alerts",
        check=CHECK,
        entity=route,
        kind="freshness",
        severity="warning",
        route=route,
        owner=settings.alerts.owner,
        runbook_url="nothing: someone ran `make alert-test`",
        summary=f"{settings.environment}: test alert of the route {route}",
        description="This is a test. Nothing is wrong",
        state="open",
        first_failed_at=now,
        last_seen_at=now,
        announced=True,
    )
