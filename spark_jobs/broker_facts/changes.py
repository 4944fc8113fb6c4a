"""Which rows of a table of facts a collection ends and adds; pure.

A row is valid until its key is seen with other values, or is known to be gone. What was not answered changes nothing: the
last known row stays, and `observations` says that it was not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from spark_jobs.broker_facts.fact_tables import FactTable, Key, Row


@dataclass(frozen=True)
class Found:
    """What a collection saw of one table.

    Attributes:
        rows: the facts, with the columns up to `digest`; at most one per key.
        is_gone: whether a key that is in no row is known to be gone, and not only unanswered.
    """

    rows: list[Row] = field(default_factory=list)
    is_gone: Callable[[Key], bool] = lambda key: False


@dataclass(frozen=True)
class Current:
    """What the table has of a key: the digest of its current row, and since when it is valid."""

    digest: str
    valid_from: datetime


@dataclass(frozen=True)
class Changes:
    """The keys whose current rows end, and the rows to add, with their digests."""

    ended: set[Key] = field(default_factory=set)
    added: list[Row] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ended or self.added)


def changes(
    facts: FactTable,
    current: Mapping[Key, Current],
    rows_of: Callable[[Iterable[Key]], Mapping[Key, Row]],
    found: Found,
    observed_at: datetime,
    offsets_interval: timedelta,
    jump_messages: int,
) -> Changes:
    """Compare what a collection saw with the current rows.

    Args:
        facts: of the table.
        current: its current rows of the cluster.
        rows_of: the whole current rows of some keys; called at most once, for a table of offsets.
        found: what the collection saw.
        observed_at: when the collection started.
        offsets_interval: offsets add a row at most so often, unless they jumped.
        jump_messages: a backlog that shrank by more has jumped.
    """
    done = Changes()
    waiting: dict[Key, Row] = {}
    seen = set()
    for row in found.rows:
        key, digest = facts.key_of(row), facts.digest(row)
        seen.add(key)
        known = current.get(key)
        if known is not None and known.digest == digest:
            continue
        row = row | {"digest": digest}
        if known and facts.jumped and observed_at - known.valid_from < offsets_interval:
            waiting[key] = row
            continue
        done.added.append(row)
        if known is not None:
            done.ended.add(key)
    if waiting and facts.jumped:
        before = rows_of(waiting)
        for key, row in waiting.items():
            if facts.jumped(before[key], row, jump_messages):
                done.added.append(row)
                done.ended.add(key)
    done.ended.update(key for key in current if key not in seen and found.is_gone(key))
    return done
