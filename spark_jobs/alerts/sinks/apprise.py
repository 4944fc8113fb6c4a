"""Apprise: chat, mail, pagers. One message a check, with all of its entities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import apprise
from pydantic import SecretStr
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.sinks.http import ATTEMPTS, DeliveryError
from spark_jobs.alerts.sinks.secrets import logging_suppressed
from spark_jobs.checks.formatting import duration, printable, utc

LISTED = 20
LONGEST_TITLE = 350
# Apprise's services that show a text as it stands, and to which Apprise says so: mail, and bodies that programs read.
_LITERAL = frozenset({"mailto", "mailtos", "json", "jsons", "xml", "xmls", "form", "forms"})
_MARKUP = str.maketrans("@<>[]*`~|", "＠‹›［］∗ʼ∼¦")


def grouped(alerts: Sequence[Alert]) -> list[list[Alert]]:
    """The alerts, those of one check and state together."""
    groups: dict[tuple[str, str, str], list[Alert]] = defaultdict(list)
    for alert in alerts:
        groups[alert.route, alert.check, alert.state].append(alert)
    return list(groups.values())


def text(group: Sequence[Alert], clean: Callable[[str], str] = str) -> tuple[str, str]:
    """Title and body of a group's message, plain text; `clean` gets all but the link, which is of the settings."""
    first = group[0]
    more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
    state = first.severity.upper() if first.is_open else "RESOLVED"
    lines = [line for alert in group[:LISTED] for line in _lines(alert, is_alone=len(group) == 1)]
    if len(group) > LISTED:
        lines.append(f"- and {len(group) - LISTED} more: see lake.ops.alerts")
    lines.append(f"owner: {first.owner}")
    body = [*(clean(printable(line)) for line in lines), printable(f"what to do: {first.runbook_url}")]
    return f"[{state}] {clean(printable(first.summary, LONGEST_TITLE))}{more}", "\n".join(body)


def _lines(alert: Alert, is_alone: bool) -> list[str]:
    times = f"since {utc(alert.first_failed_at)}"
    if alert.resolved_at is not None:
        times += f", resolved after {duration(alert.resolved_at - alert.first_failed_at)}"
    return [alert.description, times] if is_alone else [f"- {alert.summary}: {alert.description} ({times})"]


def inert(text: str) -> str:
    """The text without the signs of markup, links with a label and mentions; it reads the same.

    Discord, Mattermost and others take every message for Markdown, whatever Apprise is told of its format.
    """
    return text.translate(_MARKUP)


def send(address: SecretStr, alerts: Sequence[Alert]) -> list[Alert]:
    """Send a message a group to one address; returns the alerts that it took.

    Raises:
        DeliveryError: it took none.
    """
    taken: list[Alert] = []
    refused: DeliveryError | None = None
    for group in grouped(alerts):
        try:
            # One that hangs does so for each group: it gets no more than one try for what comes after.
            _send(address, group, ATTEMPTS if refused is None else 1)
            taken += group
        except DeliveryError as error:
            refused = refused or error
    if refused and not taken:
        raise refused
    return taken


def _send(address: SecretStr, group: Sequence[Alert], attempts: int) -> None:
    service = address.get_secret_value().partition(":")[0].strip().lower()
    title, body = text(group, str if service in _LITERAL else inert)
    kind = apprise.NotifyType.FAILURE if group[0].is_open else apprise.NotifyType.SUCCESS
    with logging_suppressed():
        sink = apprise.Apprise()
        if not sink.add(address.get_secret_value()):
            raise DeliveryError("Apprise does not know such an address")
        for attempt in Retrying(
            retry=retry_if_exception_type(_RefusedError),
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(0.5, max=5),
            reraise=True,
        ):
            with attempt:
                # Without the format a mail carries the text as HTML, and what it holds acts as that.
                if not sink.notify(
                    title=title, body=body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
                ):
                    raise _RefusedError(f"refused, {attempts} times")


class _RefusedError(DeliveryError):
    """Worth another try."""
