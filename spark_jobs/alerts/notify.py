"""One step of alerting: what checks found changes the alerts, and the sinks are told what they lack."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from spark_jobs.alerts.alert import SKEW, Alert, advance, retire
from spark_jobs.alerts.sinks.http import DeliveryError
from spark_jobs.alerts.sinks.secrets import logging_suppressed
from spark_jobs.alerts.sinks.sink import Sink, configured
from spark_jobs.checks.check import Evaluation
from spark_jobs.checks.formatting import duration, printable
from spark_jobs.settings import Settings

log = logging.getLogger(__name__)

# Whoever is to deliver an alert has it for so long; then another run may try.
LEASE = timedelta(minutes=2)
Store = Callable[[Callable[[list[Alert]], list[Alert]]], list[Alert]]


@dataclass(frozen=True)
class NotifyResult:
    """What a step did: alerts that opened or were resolved, and why a sink was not told, by its name.

    `standing` are those that Alertmanager has to be reminded of.
    """

    opened: list[Alert] = field(default_factory=list)
    resolved: list[Alert] = field(default_factory=list)
    undelivered: dict[str, str] = field(default_factory=dict)
    standing: list[Alert] = field(default_factory=list)


class StateNotSavedError(Exception):
    """People were told, and it could not be written down that they were."""

    def __init__(self, what: str, why: Exception):
        super().__init__(f"{what}: {type(why).__name__}: {str(why).strip().partition(chr(10))[0][:500]}")


def utc_now() -> datetime:
    return datetime.now(UTC)


def notify(
    store: Store, evaluations: Iterable[Evaluation], settings: Settings, now: datetime
) -> NotifyResult:
    """Advance the alerts of a store by the evaluations (there may be none), and deliver what waits.

    What cannot be delivered stays in the store and goes out with a later run.

    Args:
        store: changes the alerts, as `store.change` does; it may ask more than once.
        evaluations: of the checks that were made.
        settings: the sinks, the maintenance windows.
        now: UTC, of the evaluations: they may have taken long.

    Raises:
        StateNotSavedError: the store cannot be written; people were told all the same, and may be told again.
        Exception: the store cannot be read, so that nobody knows who was told of what.
    """
    found = list(evaluations)
    places = configured(settings.alerts)
    before: dict[tuple[str, datetime], Alert] = {}
    due: dict[tuple[str, datetime], Alert] = {}
    after: list[Alert] | None = None

    def step(alerts: list[Alert]) -> list[Alert]:
        nonlocal after
        before.clear()
        before.update({_key(alert): alert for alert in alerts})
        current = retire(advance(alerts, found, settings, now), settings.checks.off, now)
        due.clear()
        due.update({_key(alert): alert for alert in current if _is_due(alert, places, now)})
        after = [replace(a, next_attempt_at=now + LEASE) if _key(a) in due else a for a in current]
        return after

    unkept: StateNotSavedError | None = None
    try:
        alerts = store(step)
    except Exception as error:  # a full disk must not keep people from hearing
        if after is None:
            raise
        unkept = StateNotSavedError("the alerts could not be written", error)
        log.error("%s; they are told from memory, and may be told again", unkept)
        due.update(
            {key: replace(alert, description=f"{alert.description}. {unkept}") for key, alert in due.items()}
        )
        alerts = [due.get(_key(alert), alert) for alert in after]
    result = NotifyResult(standing=[alert for alert in alerts if alert.announced and alert.is_open])
    for alert in alerts:
        known = before.get(_key(alert))
        if known is None:
            result.opened.append(alert)
            log.warning("alert: %s: %s: %s", printable(alert.identity), alert.summary, alert.description)
        elif known.is_open and not alert.is_open:
            result.resolved.append(alert)
            # A warning, too: jobs show nothing less in their logs.
            span = duration(now - alert.first_failed_at)
            log.warning(
                "resolved after %s: %s: %s: %s",
                span,
                printable(alert.identity),
                alert.summary,
                alert.description,
            )
    taken = _deliver(alerts, list(due.values()), places, settings.alerts.interval_seconds, result)
    if taken and not unkept:
        try:
            store(lambda current: [_marked(alert, taken) for alert in current])
        except Exception as error:
            unkept = StateNotSavedError("who was told could not be written", error)
    if unkept:
        raise unkept
    return result


def remind(standing: Sequence[Alert], settings: Settings) -> NotifyResult:
    """Keep the alerts alive in Alertmanager, and tell nobody anything new."""
    result = NotifyResult()
    _deliver(standing, [], configured(settings.alerts), settings.alerts.interval_seconds, result)
    return result


def _deliver(
    alerts: Sequence[Alert],
    due: Sequence[Alert],
    places: Sequence[Sink],
    interval_seconds: int,
    result: NotifyResult,
) -> dict[tuple[str, datetime], list[tuple[bool, str]]]:
    """Tell all sinks at once, as one may hang; returns, by alert, who took it and whether it was open then."""
    taken: dict[tuple[str, datetime], list[tuple[bool, str]]] = {}
    # The levels of loggers are those of all threads.
    with logging_suppressed(), ThreadPoolExecutor(max(1, len(places))) as pool:
        sent = [pool.submit(sink.send, alerts, due, interval_seconds) for sink in places]
    for sink, answer in zip(places, sent, strict=True):
        try:
            for alert in answer.result():
                taken.setdefault(_key(alert), []).append((alert.is_open, sink.name))
        except DeliveryError as error:
            result.undelivered[sink.name] = str(error)
            log.error("sink %s was not told: %s; it will be told by a later run", sink.name, error)
    return taken


def _key(alert: Alert) -> tuple[str, datetime]:
    return alert.identity, alert.first_failed_at


def _is_due(alert: Alert, places: Sequence[Sink], now: datetime) -> bool:
    leased_until = alert.next_attempt_at
    # A lease that ends far in the future was taken before the clock was set back.
    is_free = leased_until is None or not now < leased_until <= now + SKEW
    return is_free and any(sink.lacks(alert) for sink in places)


def _marked(alert: Alert, taken: dict[tuple[str, datetime], list[tuple[bool, str]]]) -> Alert:
    for was_open, sink in taken.get(_key(alert), ()):
        column = "opened_sent_to" if was_open else "resolved_sent_to"
        marked = tuple(dict.fromkeys((*getattr(alert, column), sink)))  # another run may have told it, too
        alert = replace(alert, **{column: marked})  # type: ignore[arg-type]
    return alert
