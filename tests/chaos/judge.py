"""Judge the alerts by the log of the faults. Nothing here asks the warehouse: a check that is wrong shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.plan import Planned

ALLOWED_INTERVALS = 2


@dataclass(frozen=True)
class Happened:
    """A fault of the log: seconds since the run began."""

    planned: Planned
    begin: float
    end: float


@dataclass(frozen=True)
class Shown:
    """A time in which Alertmanager had an alert open: seconds since the run began. `end` is None while it is open."""

    check: str
    entity: str
    begin: float
    end: float | None


def problems(faults: Sequence[Happened], alerts: Sequence[Shown], interval: float) -> list[str]:
    """What is wrong with the alerts, one line each.

    - A fault longer than its limit has an alert of its kind within two intervals after the limit.
    - No alert of its kind that opened in it is resolved while it stands.
    - Each alert is resolved within two intervals after the end of the fault in which it opened, and of those that began before
      that time was over.
    """
    allowed = ALLOWED_INTERVALS * interval
    found: list[str] = []
    for fault in faults:
        kind, name = fault.planned.kind, f"{fault.planned.kind.name} at {fault.begin:.0f} s"
        own = [a for a in alerts if a.check in kind.alerts and fault.begin <= a.begin <= fault.end]
        if fault.planned.is_long:
            latest = fault.begin + kind.limit + allowed
            if not any(a.begin <= latest for a in own):
                first = min((a.begin for a in own), default=None)
                late = "none" if first is None else f"the first at {first:.0f} s"
                found.append(f"{name}: no alert until {latest:.0f} s, {late}")
            resolved = [a for a in own if a.end is not None and a.end < fault.end]
            found += [
                f"{name}: {a.check} {a.entity} was resolved at {a.end:.0f} s, it ended at {fault.end:.0f} s"
                for a in resolved
                if not _is_followed(a, own)
            ]
    for alert in alerts:
        cause = _cause(alert, faults, allowed)
        if cause is None:
            found.append(f"{alert.check} {alert.entity} opened at {alert.begin:.0f} s without a fault")
        elif alert.end is None or alert.end > _latest_end(alert, cause, faults, allowed):
            end = "never" if alert.end is None else f"at {alert.end:.0f} s"
            opened = f"{alert.check} {alert.entity} opened at {alert.begin:.0f} s"
            found.append(f"{opened}, in {cause.planned.kind.name} until {cause.end:.0f} s; resolved {end}")
    return found


def _is_followed(alert: Shown, others: Sequence[Shown]) -> bool:
    """Whether another alert of the kind stood when this one was resolved: the fault was still shown."""
    return any(
        a is not alert and a.begin <= (alert.end or 0) and (a.end is None or a.end > (alert.end or 0))
        for a in others
    )


def _latest_end(alert: Shown, cause: Happened, faults: Sequence[Happened], allowed: float) -> float:
    latest = max(cause.end, alert.begin) + allowed
    for fault in faults:  # in the order of their begin
        if alert.begin < fault.begin <= latest:
            latest = max(latest, fault.end + allowed)
    return latest


def _cause(alert: Shown, faults: Sequence[Happened], allowed: float) -> Happened | None:
    """The last fault that began before the alert, if it had not ended long before."""
    before = [fault for fault in faults if fault.begin <= alert.begin <= fault.end + allowed]
    return before[-1] if before else None
