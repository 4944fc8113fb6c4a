"""Alerts as a function of check results: opened once, resolved once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal

from spark_jobs.checks.check import Evaluation, Result, runbook
from spark_jobs.checks.formatting import printable
from spark_jobs.checks.owners import NO_OWNERS, Owner, Owners
from spark_jobs.checks.titles import title
from spark_jobs.settings import MaintenanceWindow, Settings

# The clocks of two runs may differ by this much.
SKEW = timedelta(minutes=30)


@dataclass(frozen=True)
class Alert:
    """An alert, from the first failure to its resolution: a row of `lake.ops.alerts` with these columns.

    `kind` is the column `class`. `summary` is the title; `value` and `threshold` are those of the newest failure, in the
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
        """The time of the newest evaluation."""
        return self.resolved_at or self.last_seen_at

    def waits_for(self, sink: str) -> bool:
        """Whether the sink must still be sent the alert, or the resolution of an alert that it was sent."""
        if self.is_open:
            return self.announced and sink not in self.opened_sent_to
        return sink in self.opened_sent_to and sink not in self.resolved_sent_to


def identity(evaluation: Evaluation, result: Result, environment: str) -> str:
    """The identity of an alert: the same for every run that finds the same fault."""
    parts = (environment, evaluation.check.table, evaluation.check.name, result.entity)
    return ":".join(part for part in parts if part is not None)


def advance(
    alerts: Sequence[Alert],
    evaluations: Iterable[Evaluation],
    settings: Settings,
    now: datetime,
    owners: Owners = NO_OWNERS,
) -> list[Alert]:
    """Update the alerts with evaluations; alerts of other checks are unchanged.

    A failure opens an alert, or updates the open one of the same identity. An open alert is resolved when its entity
    passes, or when it is retired: a check that covers all entities no longer finds it. An evaluation of new messages only
    resolves none. State from a later evaluation wins.
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
                elif result.passed and not evaluation.partial:
                    after[newest[name]] = _resolved(known, printable(result.detail), "passed", now)
            elif result.passed is False:
                newest[name] = len(after)
                after.append(_opened(name, evaluation, result, settings, now, owners))
        if evaluation.complete:
            for n, alert in enumerate(after):
                is_gone = alert.check == evaluation.check.name and alert.identity not in seen
                if alert.is_open and is_gone and not _is_late(alert, now):
                    after[n] = _resolved(alert, alert.description, "retired", now)
    return announce(after, settings.alerts.maintenance, now)


def retire(alerts: Sequence[Alert], checks: Iterable[str], now: datetime) -> list[Alert]:
    """Resolve the alerts of checks that are no longer run."""
    names = set(checks)
    return [
        _resolved(alert, alert.description, "retired", now)
        if alert.is_open and alert.check in names
        else alert
        for alert in alerts
    ]


def announce(alerts: Sequence[Alert], windows: Iterable[MaintenanceWindow], now: datetime) -> list[Alert]:
    """Announce open alerts that no maintenance window silences. An alert that opens and ends in a window is never sent."""
    current = [window for window in windows if window.start <= now < window.end]
    return [
        replace(alert, announced=True)
        if alert.is_open and not any(fnmatchcase(alert.identity, window.match) for window in current)
        else alert
        for alert in alerts
    ]


def _is_late(known: Alert, now: datetime) -> bool:
    """Whether a newer evaluation is known; one far in the future was made before the clock was set back and is ignored."""
    return now < known.known_at <= now + SKEW


def _opened(
    name: str, evaluation: Evaluation, result: Result, settings: Settings, now: datetime, owners: Owners
) -> Alert:
    check = evaluation.check
    owner = owners.of(check, result.entity) or Owner(settings.alerts.owner)
    return Alert(
        identity=name,
        environment=settings.environment,
        table=check.table,
        check=check.name,
        entity=result.entity,
        kind=check.kind,
        severity=owner.lowered(evaluation.severity),
        route=owner.route if owner.route and settings.alerts.reach(owner.route) else check.route,
        owner=owner.team,
        runbook_url=runbook(check, settings),
        state="open",
        first_failed_at=now,
        last_seen_at=now,
        **_found(evaluation, result, settings),
    )


def _found(evaluation: Evaluation, result: Result, settings: Settings) -> dict[str, Any]:
    """The columns that follow the newest failure, not the one that opened the alert."""
    return {
        "summary": title(evaluation.check, result, settings.environment),
        "description": printable(result.detail) or evaluation.check.definition,
        "value": result.value,
        "threshold": result.threshold,
    }


def _resolved(alert: Alert, detail: str, why: Literal["passed", "retired"], now: datetime) -> Alert:
    # A resolution is sent at once, whatever delivery is in progress.
    return replace(
        alert, state="resolved", description=detail, resolved_at=now, resolution=why, next_attempt_at=None
    )
