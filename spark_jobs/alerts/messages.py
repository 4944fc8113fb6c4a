"""Apprise: chat, mail, pagers. One message a check, with all of its entities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import apprise
from pydantic import SecretStr
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.http import ATTEMPTS, NotDelivered
from spark_jobs.alerts.secrets import nothing_logged

LISTED = 20


def grouped(alerts: Sequence[Alert]) -> list[list[Alert]]:
    """The alerts, those of one check and state together."""
    groups: dict[tuple[str, str, str], list[Alert]] = defaultdict(list)
    for alert in alerts:
        groups[alert.route, alert.check, alert.state].append(alert)
    return list(groups.values())


def text(group: Sequence[Alert]) -> tuple[str, str]:
    """Title and body of a group's message."""
    first = group[0]
    what = f"{first.check}: {len(group)} alerts" if len(group) > 1 else first.summary
    title = f"[{'RESOLVED' if not first.is_open else first.severity.upper()}] {first.environment} {what}"
    lines = [
        f"- {alert.entity or alert.table}: {alert.description} (since {alert.first_failed_at:%F %T} UTC)"
        for alert in group[:LISTED]
    ]
    if len(group) > LISTED:
        lines.append(f"- and {len(group) - LISTED} more: see lake.ops.alerts")
    return title, "\n".join([*lines, f"owner: {first.owner}", f"what to do: {first.runbook_url}"])


def send(address: SecretStr, alerts: Sequence[Alert]) -> list[Alert]:
    """Send a message a group to one address; returns the alerts that it took.

    Raises:
        NotDelivered: it took none.
    """
    taken: list[Alert] = []
    refused: NotDelivered | None = None
    for group in grouped(alerts):
        try:
            # One that hangs does so for each group: it gets no more than one try for what comes after.
            _send(address, group, ATTEMPTS if refused is None else 1)
            taken += group
        except NotDelivered as error:
            refused = refused or error
    if refused and not taken:
        raise refused
    return taken


def _send(address: SecretStr, group: Sequence[Alert], attempts: int) -> None:
    title, body = text(group)
    kind = apprise.NotifyType.FAILURE if group[0].is_open else apprise.NotifyType.SUCCESS
    with nothing_logged():
        sink = apprise.Apprise()
        if not sink.add(address.get_secret_value()):
            raise NotDelivered("Apprise does not know such an address")
        for attempt in Retrying(
            retry=retry_if_exception_type(_Refused),
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(0.5, max=5),
            reraise=True,
        ):
            with attempt:
                if not sink.notify(title=title, body=body, notify_type=kind):
                    raise _Refused(f"refused, {attempts} times")


class _Refused(NotDelivered):
    """Worth another try."""
