"""Alerts as a function of what checks found: opened once, resolved once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal

from spark_jobs.checks.check import Evaluation, Result, runbook
from spark_jobs.checks.formatting import printable
from spark_jobs.checks.titles import title
from spark_jobs.settings import MaintenanceWindow, Settings

# Two runs may differ by so much in what time it is.
SKEW = timedelta(minutes=30)


@dataclass(frozen=True)
class Alert:
    """A fault, from its first failure to its end: a row of `lake.ops.alerts`, whose columns these are.

    `kind` is its column `class`. `summary` is the title, `value` and `threshold` are those of the newest failure, in the
    unit of the check.
    """

    identity: str
    environment: str
    table: str
    check: str
    entity: str | None
    kind: str
    severity: str
    route: str
    owner: str
    runbook_url: str
    summary: str
    description: str
    state: Literal["open", "resolved"]
    first_failed_at: datetime
    last_seen_at: datetime
    resolved_at: datetime | None = None
    resolution: Literal["passed", "retired"] | None = None
    announced: bool = False
    opened_sent_to: tuple[str, ...] = ()
    resolved_sent_to: tuple[str, ...] = ()
    next_attempt_at: datetime | None = None
    value: float | None = None
    threshold: float | None = None

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    @property
    def known_at(self) -> datetime:
        """When the newest evaluation said so."""
        return self.resolved_at or self.last_seen_at

    def waits_for(self, sink: str) -> bool:
        """The sink has still to take the alert, or the end of one that it took."""
        if self.is_open:
            return self.announced and sink not in self.opened_sent_to
        return sink in self.opened_sent_to and sink not in self.resolved_sent_to


def identity(evaluation: Evaluation, result: Result, environment: str) -> str:
    """Of one fault, whenever and by whichever run it is found."""
    parts = (environment, evaluation.check.table, evaluation.check.name, result.entity)
    return ":".join(part for part in parts if part is not None)


def advance(
    alerts: Sequence[Alert], evaluations: Iterable[Evaluation], settings: Settings, now: datetime
) -> list[Alert]:
    """The alerts after some checks were made; those of other checks stay as they are.

    A failure opens an alert, unless one of its identity is open, which it keeps up to date. An open one is resolved
    when its entity passes, or is retired: not found by a check that found all there is. What is known already
    from a later evaluation stays so.
    """
    after = list(alerts)
    newest = {alert.identity: n for n, alert in enumerate(after)}
    for evaluation in evaluations:
        seen = set()
        for result in evaluation.results:
            name = identity(evaluation, result, settings.environment)
            seen.add(name)
            known = after[newest[name]] if name in newest else None
            if known is not None and _is_late(known, now):
                continue
            if known is not None and known.is_open:
                if result.passed is False:
                    found = _found(evaluation, result, settings)
                    after[newest[name]] = replace(known, **found, last_seen_at=now)
                elif result.passed:
                    after[newest[name]] = _resolved(known, printable(result.detail), "passed", now)
            elif result.passed is False:
                newest[name] = len(after)
                after.append(_opened(name, evaluation, result, settings, now))
        if evaluation.complete:
            for n, alert in enumerate(after):
                is_gone = alert.check == evaluation.check.name and alert.identity not in seen
                if alert.is_open and is_gone and not _is_late(alert, now):
                    after[n] = _resolved(alert, alert.description, "retired", now)
    return announce(after, settings.alerts.maintenance, now)


def retire(alerts: Sequence[Alert], checks: Iterable[str], now: datetime) -> list[Alert]:
    """The alerts, with those of the named checks resolved: these are not made any more."""
    names = set(checks)
    return [
        _resolved(alert, alert.description, "retired", now)
        if alert.is_open and alert.check in names
        else alert
        for alert in alerts
    ]


def announce(alerts: Sequence[Alert], windows: Iterable[MaintenanceWindow], now: datetime) -> list[Alert]:
    """Let out what is open and no maintenance window holds back. What began and ended in one is never told."""
    current = [window for window in windows if window.start <= now < window.end]
    return [
        replace(alert, announced=True)
        if alert.is_open and not any(fnmatchcase(alert.identity, window.match) for window in current)
        else alert
        for alert in alerts
    ]


def _is_late(known: Alert, now: datetime) -> bool:
    """A newer evaluation is known. One that is far in the future was made before the clock was set back."""
    return now < known.known_at <= now + SKEW


def _opened(name: str, evaluation: Evaluation, result: Result, settings: Settings, now: datetime) -> Alert:
    check = evaluation.check
    return Alert(
        identity=name,
        environment=settings.environment,
        table=check.table,
        check=check.name,
        entity=result.entity,
        kind=check.kind,
        severity=evaluation.severity,
        route=check.route,
        owner=settings.alerts.owner,
        runbook_url=runbook(check, settings),
        state="open",
        first_failed_at=now,
        last_seen_at=now,
        **_found(evaluation, result, settings),
    )


def _found(evaluation: Evaluation, result: Result, settings: Settings) -> dict[str, Any]:
    """What the newest failure says; people see it as it is now, not as it was when the alert opened."""
    return {
        "summary": title(evaluation.check, result, settings.environment),
        "description": printable(result.detail) or evaluation.check.definition,
        "value": result.value,
        "threshold": result.threshold,
    }


def _resolved(alert: Alert, detail: str, why: Literal["passed", "retired"], now: datetime) -> Alert:
    # An alert that is over is told at once, whatever was being tried.
    return replace(
        alert, state="resolved", description=detail, resolved_at=now, resolution=why, next_attempt_at=None
    )
