"""One step of alerting: update the alerts with evaluations, then notify the sinks of what they were not sent yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from spark_jobs.alerts.alert import SKEW, Alert, advance, retire
from spark_jobs.alerts.messages import MessagesPage
from spark_jobs.alerts.sinks.http import DeliveryError
from spark_jobs.alerts.sinks.secrets import logging_suppressed
from spark_jobs.alerts.sinks.sink import Sink, configured
from spark_jobs.checks.check import Evaluation
from spark_jobs.checks.formatting import duration, printable
from spark_jobs.checks.owners import NO_OWNERS, Owners
from spark_jobs.checks.owners import read as read_owners
from spark_jobs.settings import Settings

log = logging.getLogger(__name__)

# A run that delivers an alert leases it for this time; afterwards another run may deliver it.
LEASE = timedelta(minutes=2)
Store = Callable[[Callable[[list[Alert]], list[Alert]]], list[Alert]]


@dataclass(frozen=True)
class NotifyResult:
    """The result of a step: by sink name why a notification failed.

    `standing`: the announced open alerts, which must be resent to Alertmanager.
    """

    undelivered: dict[str, str] = field(default_factory=dict)
    standing: list[Alert] = field(default_factory=list)


class StateNotSavedError(Exception):
    """Notifications were sent, but could not be recorded; they may be sent again."""

    def __init__(self, what: str, why: Exception):
        super().__init__(f"{what}: {type(why).__name__}: {str(why).strip().partition(chr(10))[0][:500]}")


def utc_now() -> datetime:
    return datetime.now(UTC)


def notify(
    store: Store, evaluations: Iterable[Evaluation], settings: Settings, now: datetime
) -> NotifyResult:
    """Update the alerts of a store with the evaluations (there may be none), and deliver pending notifications.

    A notification that cannot be delivered stays pending in the store; a later run sends it.

    Args:
        store: changes the alerts, as `store.change` does; it may call its argument more than once.
        evaluations: of the checks that were run.
        settings: the sinks and the maintenance windows.
        now: time of the evaluations, UTC: they may have taken long.

    Raises:
        StateNotSavedError: the store cannot be written; notifications were sent and may be sent again.
        Exception: the store cannot be read, so it is unknown what was sent.
    """
    found = list(evaluations)
    owners = _owners()
    sinks = configured(settings.alerts, MessagesPage.of(settings))
    before: dict[tuple[str, datetime], Alert] = {}
    due: dict[tuple[str, datetime], Alert] = {}
    after: list[Alert] | None = None

    def step(alerts: list[Alert]) -> list[Alert]:
        nonlocal before, due, after
        before = {_key(alert): alert for alert in alerts}
        current = retire(advance(alerts, found, settings, now, owners), settings.checks.off, now)
        due = {_key(alert): alert for alert in current if _is_due(alert, sinks, now)}
        after = [replace(a, next_attempt_at=now + LEASE) if _key(a) in due else a for a in current]
        return after

    unsaved: StateNotSavedError | None = None
    try:
        alerts = store(step)
    except Exception as error:  # a full disk must not prevent notifications
        if after is None:
            raise
        unsaved = StateNotSavedError("the alerts could not be saved", error)
        log.error("%s; notifications are sent from memory, and may be sent again", unsaved)
        due = {
            key: replace(alert, description=f"{alert.description}. {unsaved}") for key, alert in due.items()
        }
        alerts = [due.get(_key(alert), alert) for alert in after]
    result = NotifyResult(standing=[alert for alert in alerts if alert.announced and alert.is_open])
    for alert in alerts:
        known = before.get(_key(alert))
        if known is None:
            log.warning("alert: %s: %s: %s", printable(alert.identity), alert.summary, alert.description)
        elif known.is_open and not alert.is_open:
            # At level warning, the lowest level that jobs log.
            span = duration(now - alert.first_failed_at)
            log.warning(
                "resolved after %s: %s: %s: %s",
                span,
                printable(alert.identity),
                alert.summary,
                alert.description,
            )
    taken = _deliver(alerts, list(due.values()), sinks, settings.alerts.interval_seconds, result)
    if taken and not unsaved:
        try:
            store(lambda current: [_marked(alert, taken) for alert in current])
        except Exception as error:
            unsaved = StateNotSavedError("the notifications could not be recorded", error)
    if unsaved:
        raise unsaved
    return result


def _owners() -> Owners:
    """The rows of the seed `owners`; none if it cannot be read: an alert with the wrong recipient is better than none."""
    try:
        return read_owners()
    except ValueError as error:
        log.error("alerts have the owner of the settings: %s", error)
        return NO_OWNERS


def remind(standing: Sequence[Alert], settings: Settings) -> NotifyResult:
    """Resend open alerts to Alertmanager, so that it does not resolve them; send nothing to other sinks."""
    result = NotifyResult()
    sinks = configured(settings.alerts, MessagesPage.of(settings))
    _deliver(standing, [], sinks, settings.alerts.interval_seconds, result)
    return result


def _deliver(
    alerts: Sequence[Alert],
    due: Sequence[Alert],
    sinks: Sequence[Sink],
    interval_seconds: int,
    result: NotifyResult,
) -> dict[tuple[str, datetime], list[tuple[bool, str]]]:
    """Send to all sinks in parallel, as one may hang; return per alert the sinks that accepted it and whether it was open."""
    taken: dict[tuple[str, datetime], list[tuple[bool, str]]] = {}
    # Log levels are shared by all threads.
    with logging_suppressed(), ThreadPoolExecutor(max(1, len(sinks))) as pool:
        sent = [pool.submit(sink.send, alerts, due, interval_seconds) for sink in sinks]
    for sink, answer in zip(sinks, sent, strict=True):
        try:
            for alert in answer.result():
                taken.setdefault(_key(alert), []).append((alert.is_open, sink.name))
        except DeliveryError as error:
            result.undelivered[sink.name] = str(error)
            log.error("sink %s could not be notified: %s; a later run retries", sink.name, error)
    return taken


def _key(alert: Alert) -> tuple[str, datetime]:
    return alert.identity, alert.first_failed_at


def _is_due(alert: Alert, sinks: Sequence[Sink], now: datetime) -> bool:
    leased_until = alert.next_attempt_at
    # A lease that ends far in the future was taken before the clock was set back; ignore it.
    is_free = leased_until is None or not now < leased_until <= now + SKEW
    return is_free and any(sink.lacks(alert) for sink in sinks)


def _marked(alert: Alert, taken: dict[tuple[str, datetime], list[tuple[bool, str]]]) -> Alert:
    for was_open, sink in taken.get(_key(alert), ()):
        column = "opened_sent_to" if was_open else "resolved_sent_to"
        marked = tuple(dict.fromkeys((*getattr(alert, column), sink)))  # another run may have sent it too
        alert = replace(alert, **{column: marked})  # type: ignore[arg-type]
    return alert
