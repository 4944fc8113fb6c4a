"""What the definitions in plain Python share: the inputs of the tables of a cluster, names, and limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from spark_jobs.settings import Limits

Record = dict[str, Any]
Key = tuple[Any, ...]
Rows = dict[Key, Record]

EPOCH = datetime(1970, 1, 1)
DAY_MS = 24 * 60 * 60 * 1000
ENDED_WELL = ("success", "timeout")
STATES = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback", "UNKNOW": "unknown"}


@dataclass(frozen=True)
class Subscription:
    """What a group subscribed to from `start` until `end`, None: still. Without `tags` it gets all messages of the topic."""

    topic: str
    group: str
    tags: tuple[str, ...]
    is_sql: bool
    start: datetime
    end: datetime | None


@dataclass(frozen=True)
class Check:
    """What the broker said of a message for a group; without a namespace."""

    topic: str
    msg_id: str
    group: str
    state: str
    is_stored: bool | None = True
    held_as: str | None = None
    due_at: datetime | None = None
    queue_offset: int | None = None
    is_of_batch: bool | None = None
    stored_at: datetime | None = None


@dataclass(frozen=True)
class Collection:
    """What the broker said at a time: the groups that it knows, where each topic ends, the offsets of groups on topics, and
    the messages that were looked up.

    `connected` are (side, group) with clients, `tracing` those of which one client writes a trace, `two_clients` consumer groups
    that have two clients, not one, and `broadcasting` connected consumer groups in that mode. `pull_offsets` are those that the
    broker knows. Names are those of the broker. Each topic has one queue.
    """

    at: datetime
    groups: frozenset[str]
    ends: dict[str, int]
    offsets: dict[tuple[str, str], int]
    connected: frozenset[tuple[str, str]] = frozenset()
    tracing: frozenset[tuple[str, str]] = frozenset()
    broadcasting: frozenset[str] = frozenset()
    checks: tuple[Check, ...] = ()
    two_clients: frozenset[str] = frozenset()
    pull_offsets: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def online(self) -> frozenset[str]:
        """The consumer groups with clients."""
        return frozenset(group for side, group in self.connected if side == "consumer")


@dataclass(frozen=True)
class Cluster:
    """What the tables of a cluster are a function of; `gaps` are (from, to) in store time, and `subscriptions` and
    `collections`, the first one first, are those that were known at the watermark."""

    records: list[Record]
    watermark: datetime
    gaps: list[tuple[datetime | None, datetime]] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    collections: list[Collection] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)


def present(text: str | None) -> str | None:
    return None if text in (None, "", "null") else text


def name(text: str | None) -> str | None:
    """A group or topic without %RETRY% and %DLQ% and without a namespace."""
    found = present(text)
    return None if found is None else re.sub(r"^(%RETRY%|%DLQ%)?([^%]+%)?", "", found)


def hour_of(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def decision(ends: list[Record] | None) -> str | None:
    """The last that an EndTransaction said; None where there is none."""
    if not ends:
        return None
    decided = [end["state"] for end in ends if end["state"] in ("commit", "rollback")]
    return decided[-1] if decided else "unknown"


def grace(cluster: Cluster) -> timedelta:
    return timedelta(seconds=cluster.limits.grace_seconds)


def consume_timeout(cluster: Cluster) -> timedelta:
    return timedelta(seconds=cluster.limits.consume_timeout_seconds)


def max_delay(cluster: Cluster) -> timedelta:
    return timedelta(seconds=cluster.limits.max_delay_seconds)
