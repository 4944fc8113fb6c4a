"""The definition of a broadcast group in docs/definitions.md in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime

from tests.incremental.cluster import Cluster, Key, Rows


def is_broadcast(cluster: Cluster, group: str, at: datetime, inferred: set[str]) -> bool:
    """Whether the group is in broadcast mode: as the brokers said last, or as it is inferred."""
    said = [group in c.broadcasting for c in cluster.collections if group in c.online and c.at <= at]
    return said[-1] if said else group in inferred


def inferred_broadcast_groups(cluster: Cluster, attempted: Rows) -> set[str]:
    """Groups of which most messages had first attempts on several clients within an hour, before the brokers said a mode."""
    first_said: dict[str, datetime] = {}
    for collection in reversed(cluster.collections):
        first_said |= dict.fromkeys(collection.online, collection.at)
    clients: dict[Key, set[str]] = defaultdict(set)
    for (_, msg_id), attempt in attempted.items():
        group = attempt["consumer_group"]
        if group in first_said and attempt["hour"] > first_said[group]:
            continue
        if group is not None and attempt["retry_times"] == 0:
            clients[attempt["consumer_group"], attempt["hour"], msg_id].add(attempt["client"])
    several, all_of = Counter[str](), Counter[str]()
    for (group, *_), on in clients.items():
        all_of[group] += 1
        several[group] += len(on) > 1
    return {group for group in all_of if several[group] >= 3 and several[group] * 4 >= all_of[group] * 3}


def was_ever_broadcast(cluster: Cluster, group: str, inferred: set[str]) -> bool:
    """Whether the brokers ever said that the group broadcasts, or it is inferred."""
    return group in inferred or any(group in c.online & c.broadcasting for c in cluster.collections)
