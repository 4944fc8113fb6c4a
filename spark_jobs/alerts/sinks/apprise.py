"""Apprise: chat, mail, pagers. One message per check, with all of its entities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import apprise
from pydantic import SecretStr
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential

from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.messages import MessagesPage
from spark_jobs.alerts.sinks.http import ATTEMPTS, DeliveryError
from spark_jobs.alerts.sinks.secrets import logging_suppressed
from spark_jobs.checks.formatting import duration, printable, utc

LISTED = 20
LONGEST_TITLE = 350
# Apprise services that show plain text as plain text: mail, and services whose bodies are read by programs.
_LITERAL = frozenset({"mailto", "mailtos", "json", "jsons", "xml", "xmls", "form", "forms"})
_MARKUP = str.maketrans("@<>[]*`~|", "＠‹›［］∗ʼ∼¦")


def grouped(alerts: Sequence[Alert]) -> list[list[Alert]]:
    """Group the alerts by check, state, owner and severity."""
    groups: dict[tuple[str, ...], list[Alert]] = defaultdict(list)
    for alert in alerts:
        groups[alert.route, alert.check, alert.state, alert.owner, alert.severity].append(alert)
    return list(groups.values())


def text(
    group: Sequence[Alert], clean: Callable[[str], str] = str, messages: MessagesPage | None = None
) -> tuple[str, str]:
    """Title and body of a group's message, plain text; `clean` is applied to all text but the links."""
    first = group[0]
    more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
    state = first.severity.upper() if first.is_open else "RESOLVED"
    lines = [line for alert in group[:LISTED] for line in _lines(alert, is_alone=len(group) == 1)]
    if len(group) > LISTED:
        lines.append(f"- and {len(group) - LISTED} more: see lake.ops.alerts")
    lines.append(f"owner: {first.owner}")
    body = [clean(printable(line)) for line in lines]
    if messages and (link := messages.link(group)):
        body.append(f"messages: {link}")
    body.append(printable(f"what to do: {first.runbook_url}"))
    return f"[{state}] {clean(printable(first.summary, LONGEST_TITLE))}{more}", "\n".join(body)


def _lines(alert: Alert, is_alone: bool) -> list[str]:
    times = f"since {utc(alert.first_failed_at)}"
    if alert.resolved_at is not None:
        times += f", resolved after {duration(alert.resolved_at - alert.first_failed_at)}"
    return [alert.description, times] if is_alone else [f"- {alert.summary}: {alert.description} ({times})"]


def inert(text: str) -> str:
    """Escape markup, labelled links and mentions; the text reads the same.

    Discord, Mattermost and others render every message as Markdown, whatever format is given to Apprise.
    """
    return text.translate(_MARKUP)


def send(address: SecretStr, alerts: Sequence[Alert], messages: MessagesPage | None = None) -> list[Alert]:
    """Send one message per group to one address; return the alerts that were accepted.

    Raises:
        DeliveryError: none was accepted.
    """
    taken: list[Alert] = []
    refused: DeliveryError | None = None
    for group in grouped(alerts):
        try:
            # A service that hangs would hang for each group: after a failure every further group gets one attempt.
            _send(address, group, ATTEMPTS if refused is None else 1, messages)
            taken += group
        except DeliveryError as error:
            refused = refused or error
    if refused and not taken:
        raise refused
    return taken


def _send(address: SecretStr, group: Sequence[Alert], attempts: int, messages: MessagesPage | None) -> None:
    service = address.get_secret_value().partition(":")[0].strip().lower()
    title, body = text(group, str if service in _LITERAL else inert, messages)
    kind = apprise.NotifyType.FAILURE if group[0].is_open else apprise.NotifyType.SUCCESS
    with logging_suppressed():
        sink = apprise.Apprise()
        if not sink.add(address.get_secret_value()):
            raise DeliveryError("Apprise does not know such an address")
        for each in sink:  # what is longer than the service accepts would be refused each time
            if each.overflow_mode is apprise.OverflowMode.UPSTREAM:
                each.overflow_mode = apprise.OverflowMode.SPLIT
        retrying = Retrying(
            retry=retry_if_result(lambda is_accepted: not is_accepted),
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(0.5, max=5),
            retry_error_callback=lambda _: False,
        )
        # Without the body format a mail would carry the text as HTML.
        if not retrying(
            sink.notify, title=title, body=body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
        ):
            raise DeliveryError(f"refused, {attempts} times")
