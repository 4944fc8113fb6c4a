"""Which faults there are, when and for how long: drawn from a seed before the run."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        name: of the kind.
        alerts: checks whose alert says that it stands; one of them is enough.
        limit: seconds that it may stand before it is an alert.
        shortest: seconds of the shortest fault.
        longest: seconds of the longest fault that is short, well below what any check allows.
    """

    name: str
    alerts: frozenset[str]
    limit: float
    shortest: float
    longest: float


@dataclass(frozen=True)
class Planned:
    """A fault that is to come: how long it stands, and whether that is longer than the limit of its kind."""

    kind: Kind
    seconds: float
    is_long: bool


def kinds(factor: float) -> list[Kind]:
    """The kinds, with the limits of the settings divided by `factor`."""
    of_brokers = frozenset({"lag", "freshness_raw", "task_failed"})
    return [
        # The supervisor's alert opens with the third end in a row.
        Kind("component", frozenset({"airflow_component"}), 60, 1, 5),
        Kind(
            "job", frozenset({"ingest_silent", "task_failed", "airflow_component"}), 20 * 60 / factor, 1, 10
        ),
        Kind("broker", of_brokers, 0, 2, 15),
        Kind("slow broker", of_brokers, 0, 5, 20),
        # The alert opens with the second heartbeat in a row.
        Kind("sink", frozenset({"watchdog"}), 5 * 60 / factor, 5, 20),
        Kind("full disk", frozenset({"disk_space"}), 0, 5, 20),
    ]


def drawn(
    seed: int, seconds: float, factor: float, interval: float, only: str | None = None
) -> list[Planned]:
    """Faults that fit into so many seconds with their pauses: in a whole hour each kind long once and short several times.

    Args:
        seed: of the draw.
        seconds: of the run.
        factor: by which limits and intervals are divided.
        interval: of the watchdog, seconds.
        only: the name of one kind; None: of all.
    """
    dice = random.Random(seed)
    all_kinds = [kind for kind in kinds(factor) if only in (None, kind.name)]
    long = [Planned(kind, kind.limit + 2.5 * interval, True) for kind in all_kinds]
    short = [
        Planned(kind, dice.uniform(kind.shortest, kind.longest), False)
        for _ in range(4)
        for kind in all_kinds
    ]
    dice.shuffle(short)
    dice.shuffle(long)
    long.sort(key=lambda each: each.seconds, reverse=True)  # a shorter run has those that need less time
    found: list[Planned] = []
    left = seconds
    while long or short:
        # Four short ones for each long one, so that a shorter run has both.
        batch = [long.pop()] if long else []
        batch += [short.pop() for _ in range(min(4, len(short)))]
        for each in batch:
            needed = each.seconds + pause(each, interval)
            if needed <= left:
                found.append(each)
                left -= needed
    return found


def pause(fault: Planned, interval: float) -> float:
    """Seconds without a fault after this one: its alerts resolve within two intervals after its end."""
    return 2.2 * interval if fault.is_long else 0.6 * interval
