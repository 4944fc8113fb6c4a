"""Why a consumption may have left no trace."""

from __future__ import annotations

from datetime import datetime

from tests.incremental.cluster import Check, Cluster, Record, Rows, consume_timeout, grace, hour_of
from tests.incremental.definitions.expectations import filtered_cause, subscriptions_of, wants
from tests.incremental.definitions.lookups import last_check
from tests.incremental.definitions.offsets import is_passed, offsets_of


def tracing_clients(cluster: Cluster, check: Check, at: datetime) -> str | None:
    """How many of the group's clients wrote a trace from the storage of the message until the look-up: all, some, or unknown."""
    start = min(check.stored_at, at) if check.stored_at else at
    ends = [*(c.at for c in cluster.collections[1:]), None]
    seen = [
        c
        for c, end in zip(cluster.collections, ends, strict=True)
        if c.at <= at and (end is None or end > start)
    ]
    # Of the same consumers: how many, and at each collection whether one had a trace producer.
    periods: list[tuple[tuple[int, bool], list[bool]]] = []
    for c in seen:
        count = 0 if check.group not in c.online else 2 if check.group in c.two_clients else 1
        consumers = (count, count > 0 and check.group in c.broadcasting)
        if not periods or periods[-1][0] != consumers:
            periods.append((consumers, []))
        periods[-1][1].append(("consumer", check.group) in c.tracing)
    counts = [(count, tracing) for (count, _), tracing in periods]
    if len(counts) == 1 and counts[0][0] == 1 and all(counts[0][1]):
        return "all"
    is_known = any(any(tracing) for _, tracing in counts)
    return "some" if is_known and any(count > any(tracing) for count, tracing in counts) else None


def is_dropped_repeatedly(cluster: Cluster, check: Check, at: datetime) -> bool:
    """Whether all clients trace, and the group passed this and another such message in different intervals."""
    dropped = _dropped(cluster, check, at)
    looked_up = {
        each.msg_id for c in cluster.collections for each in c.checks if each.topic == check.topic
    } - {check.msg_id}
    others = [
        _dropped(cluster, other, other_at)
        for other_at, other in (
            last_check(cluster, check.topic, msg_id, check.group) for msg_id in sorted(looked_up)
        )
        if other and other_at
    ]
    limit = grace(cluster)
    return dropped is not None and any(
        first[1] + limit < second[0]
        for other in others
        if other
        for first, second in ((dropped, other), (other, dropped))
    )


def _dropped(cluster: Cluster, check: Check, at: datetime) -> tuple[datetime, datetime] | None:
    """Of a message that is consumed although all clients trace: when it was stored, and by when it was passed."""
    if check.state != "consumed" or tracing_clients(cluster, check, at) != "all":
        return None
    stored = min(check.stored_at, at) if check.stored_at else at
    above = [
        seen
        for seen, offset in offsets_of(cluster, check)
        if check.queue_offset is not None and offset > check.queue_offset and seen >= stored
    ]
    return stored, min([*above, at])


def is_trace_incomplete(attempted: Rows, message: Record, group: str | None) -> bool:
    """Whether an attempt of the group on the topic, in the hour of the publication, lacks its begin or its end."""
    at = hour_of(message["published_at"])
    return any(
        (a["topic"], a["consumer_group"], hour_of(a["occurred_at"])) == (message["topic"], group, at)
        and (a["outcome"] == "not_returned" or not a["has_begin"])
        for a in attempted.values()
    )


def is_read_untraced(cluster: Cluster, message: Record) -> bool:
    """Whether a group reads a message that no group is expected to consume."""
    groups = {each.group for each in cluster.subscriptions}
    groups |= {each.group for c in cluster.collections for each in c.checks}
    return any(_reads(cluster, message, group) for group in groups)


def _reads(cluster: Cluster, message: Record, group: str) -> bool:
    """Whether the group reads the message, by its subscriptions at the publication or by the last look-up."""
    _, check = last_check(cluster, message["topic"], message["msg_id"], group)
    state = check.state if check else None
    valid = subscriptions_of(cluster, message, group)
    if state in ("dead_letter", "retrying") or wants(message, valid):
        return True
    if valid:
        return filtered_cause(cluster, message, group) == "filter_unknown" and state != "filtered"
    if check and state in ("not_consumed", "offline"):
        return is_passed(cluster, check)
    return state in ("consumed", "consumed_or_filtered")


def is_in_gap(cluster: Cluster, message: Record, gap: tuple[datetime | None, datetime]) -> bool:
    start, end = gap
    last = message["due_at"] + consume_timeout(cluster) + grace(cluster)
    return message["published_at"] <= end and (start is None or last >= start)
