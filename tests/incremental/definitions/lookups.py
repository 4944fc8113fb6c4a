"""What brokers said when they were asked for a message."""

from __future__ import annotations

from datetime import datetime

from tests.incremental.cluster import Check, Cluster, Record, Rows, grace, max_delay, name
from tests.incremental.definitions.expectations import subscriptions_of, wants
from tests.incremental.definitions.offsets import is_passed, jumped_offline, offsets_of


def last_check(
    cluster: Cluster, topic: str, msg_id: str, group: str | None
) -> tuple[datetime | None, Check | None]:
    """The last look-up of the message for the group that was answered, and its time."""
    for collection in reversed(cluster.collections):
        for check in collection.checks:
            is_answered = check.state != "unknown" or check.is_stored is False
            if is_answered and (check.topic, check.msg_id, check.group) == (topic, msg_id, group):
                return collection.at, check
    return None, None


def look_up(
    cluster: Cluster,
    message: Record,
    group: str | None,
    at: datetime | None,
    check: Check | None,
    begun: int,
) -> str | None:
    """What a look-up says now, by the numbers of the definition; None: nothing."""
    if check is None or at is None:
        return None
    if check.state == "dead_letter":  # 1
        return check.state
    if check.state == "retrying":  # 2
        return "retrying" if cluster.watermark < at + max_delay(cluster) + grace(cluster) else "passed"
    if begun:  # 3
        return None
    if check.state == "recalled":
        return "recalled"
    valid = subscriptions_of(cluster, message, group)
    is_wanted = wants(message, valid)
    if check.state == "filtered":  # 4
        return "filter_unknown" if is_wanted else "filtered"
    is_unknown = not is_wanted and any(s.is_sql for s in valid)
    is_in_queue = check.state in ("not_consumed", "offline")
    if is_in_queue and not is_unknown and not is_passed(cluster, check):  # 5
        return "not_reached"
    if is_in_queue or check.state in ("consumed", "consumed_or_filtered"):
        if is_unknown:  # 6
            return "filter_unknown"
        if valid and not is_wanted and message["tags"] is not None:
            return "filtered"
        if any(
            (s.topic, s.group) == (message["topic"], group)
            and message["published_at"] < s.start <= at
            and not wants(message, [s])
            for s in cluster.subscriptions
        ):
            return "filter_unknown"
        if is_in_queue:
            return "passed"
        return (
            "filter_unknown" if check.state == "consumed_or_filtered" and not is_wanted else "consumed"
        )  # 7
    if check.state == "not_delivered":  # 8
        if check.held_as == "transaction":
            return "half_uncommitted"
        return "delayed_not_due" if check.due_at and cluster.watermark < check.due_at else None
    return "broadcasting" if check.state == "broadcasting" else "gone"  # 9


def attempts_on(attempted: Rows, topic: str, group: str | None) -> list[datetime]:
    """When the attempts of the group on the topic began, or ended if that is unknown."""
    return [
        a["occurred_at"] for a in attempted.values() if (a["topic"], a["consumer_group"]) == (topic, group)
    ]


def is_skipped(cluster: Cluster, message: Record, group: str | None, attempted: Rows, check: Check) -> bool:
    """Whether the offset was set over the message: no consumer was connected, and none was given the message."""
    jumped = jumped_offline(cluster, check)
    if jumped is None or check.queue_offset is None:
        return False
    pulled = {
        c.at: pull_offset
        for c in cluster.collections
        for each, pull_offset in c.pull_offsets.items()
        if (name(each[0]), name(each[1])) == (check.topic, check.group)
    }
    offsets = offsets_of(cluster, check)
    traced = attempts_on(attempted, check.topic, group)
    if any(at in pulled for at, _ in offsets):
        if pulled.get(jumped, check.queue_offset + 1) > check.queue_offset:
            return False
        moved_beyond_pulled = [
            at
            for n, (at, offset) in enumerate(offsets)
            if n and at in pulled and offset > pulled[at] and offset > max(o for _, o in offsets[:n])
        ]
        return len(moved_beyond_pulled) == 1 or (bool(traced) and max(traced) >= message["published_at"])
    is_of_batch = message["batch_size"] > 1 or bool(check.is_of_batch)
    return bool(traced) and min(traced) <= message["published_at"] <= max(traced) and not is_of_batch
