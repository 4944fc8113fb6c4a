"""Which rows of a table of facts a collection ends and adds; pure.

A row is valid until its key is seen with other values, or is known to be gone. What was not answered changes nothing: the
last known row stays, and `observations` says that it was not confirmed.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import xxhash

from spark_jobs.lake.tables import (
    BROKERS,
    CONSUMERS,
    GROUP_OFFSETS,
    GROUPS,
    PRODUCERS,
    SUBSCRIPTIONS,
    TOPIC_OFFSETS,
    TOPICS,
    Table,
)

Row = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class FactTable:
    """How the rows of a table are told apart and compared.

    Attributes:
        table: the table.
        key: the columns that identify a fact within a cluster; the first is `broker`.
        compared: the values of a row whose change counts, as bytes or as JSON has them.
        jumped: for offsets, whether a new row must be added at once; other tables have None: they always add it.
    """

    table: Table
    key: tuple[str, ...]
    compared: Callable[[Row], Any]
    jumped: Callable[[Row, Row, int], bool] | None = None

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def digest(self, row: Row) -> str:
        """A hash of the compared values, 16 hexadecimal digits."""
        values = self.compared(row)
        text = values if isinstance(values, bytes) else json.dumps(values, separators=(",", ":")).encode()
        return xxhash.xxh3_64_hexdigest(text)


def _values(table: Table, *without: str) -> Callable[[Row], Any]:
    """All columns of the table that describe the fact, but for some."""
    ends = {"cluster", "digest", "valid_from", "valid_to", "run_id", *without}
    names = [name for name in table.column_names if name not in ends]
    return lambda row: [row[name] for name in names]


def _offsets(name: str) -> Callable[[Row], bytes]:
    """The ids and one offset of all queues, as bytes: there are a hundred thousand of them."""

    def compared(row: Row) -> bytes:
        numbers = array("q")
        for queue in row["queues"]:
            numbers.append(queue["queue_id"])
            numbers.append(queue[name])
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tobytes()

    return compared


def _offsets_jumped(before: Row, after: Row, jump_messages: int) -> bool:
    """Whether a queue came or went, its offset went back, or its backlog shrank by more than `jump_messages`.

    A consumer that keeps up moves its offset as far as the broker's moves; a backlog shrinks because a group catches up,
    or because its offset was set over messages.
    """
    old = {queue["queue_id"]: queue for queue in before["queues"]}
    new = {queue["queue_id"]: queue for queue in after["queues"]}
    return old.keys() != new.keys() or any(
        new[queue_id]["consumer_offset"] < queue["consumer_offset"]
        or _backlog(queue) - _backlog(new[queue_id]) > jump_messages
        for queue_id, queue in old.items()
    )


def _backlog(queue: Row) -> int:
    """Messages that are not consumed; 0 if the broker's offset is unknown."""
    return 0 if queue["broker_offset"] is None else queue["broker_offset"] - queue["consumer_offset"]


def _ends_jumped(before: Row, after: Row, _: int) -> bool:
    """Whether a queue came or went, or its end went back: the topic was recreated."""
    old = {queue["queue_id"]: queue["max_offset"] for queue in before["queues"]}
    new = {queue["queue_id"]: queue["max_offset"] for queue in after["queues"]}
    return old.keys() != new.keys() or any(new[queue_id] < end for queue_id, end in old.items())


FACT_TABLES = (
    FactTable(BROKERS, ("broker",), _values(BROKERS)),
    FactTable(TOPICS, ("broker", "topic"), _values(TOPICS)),
    FactTable(
        TOPIC_OFFSETS,
        ("broker", "topic"),
        _offsets("max_offset"),
        _ends_jumped,
    ),
    FactTable(GROUPS, ("broker", "group_name"), _values(GROUPS)),
    FactTable(CONSUMERS, ("broker", "group_name"), _values(CONSUMERS, "client_ids")),
    FactTable(SUBSCRIPTIONS, ("broker", "group_name", "topic"), _values(SUBSCRIPTIONS)),
    FactTable(
        GROUP_OFFSETS,
        ("broker", "group_name", "topic"),
        _offsets("consumer_offset"),
        _offsets_jumped,
    ),
    FactTable(PRODUCERS, ("broker", "group_name"), _values(PRODUCERS, "client_ids")),
)


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
