"""The section on orphans of docs/definitions.md in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta

from tests.incremental.cluster import (
    Cluster,
    Key,
    Record,
    Rows,
    Subscription,
    consume_timeout,
    decision,
    grace,
    hour_of,
    max_delay,
    name,
)

# The causes that count in the orphan rate.
IN_RATE = ("not_returned", "passed_untraced", "backlog_overdue", "filtered_or_lost")


def due_at(cluster: Cluster, message: Record, ends: list[Record] | None) -> datetime:
    if message["msg_type"] == "delay":
        return message["published_at"] + max_delay(cluster)
    commits = [end["decided_at"] for end in ends or [] if end["state"] == "commit"]
    return commits[-1] if commits else message["published_at"]


def expected_groups(cluster: Cluster, messages: Rows, attempted: Rows) -> dict[Key, set[str]]:
    """The groups that are expected to consume each message: those with an attempt on its topic in the look-back."""
    back = timedelta(days=cluster.limits.expected_group_lookback_days)
    seen = [
        (a["topic"], a["consumer_group"], a["occurred_at"])
        for a in attempted.values()
        if a["topic"] is not None and a["consumer_group"] is not None
    ]
    return {
        key: {
            group
            for topic, group, at in seen
            if topic == message["topic"] and at <= message["published_at"] <= at + back
        }
        for key, message in messages.items()
    }


def orphans(
    cluster: Cluster,
    messages: Rows,
    attempted: Rows,
    ends: dict[str, list[Record]],
    recalled: set[str | None],
    expected: dict[Key, set[str]],
) -> Rows:
    """One row per message and expected group without a SubAfter; one per message that no group is expected to consume."""
    of_message: dict[str, list[Record]] = defaultdict(list)
    for (_, msg_id), attempt in attempted.items():
        of_message[msg_id].append(attempt)
    unconsumed = []
    for key, message in messages.items():
        for group in expected[key] or {None}:
            of_group = [
                a for a in of_message[message["msg_id"]] if group is None or a["consumer_group"] == group
            ]
            if not any(attempt["has_end"] for attempt in of_group):
                unconsumed.append((*key, group, message, Counter(a["outcome"] for a in of_group)))
    in_gap = {
        msg_id
        for _, msg_id, _, message, _ in unconsumed
        if any(_in_gap(cluster, message, gap) for gap in cluster.gaps)
    }
    found: Rows = {}
    for topic, msg_id, group, message, outcomes in unconsumed:
        state = decision(ends.get(msg_id)) or ("unknown" if message["msg_type"] == "half" else None)
        begun = outcomes["in_flight"] + outcomes["not_returned"]
        due, is_proven = message["due_at"], False
        if msg_id in in_gap:
            cause = "trace_gap"
        elif state == "rollback":
            cause = "rolled_back"
        elif msg_id in recalled:
            cause = "recalled"
        elif state == "unknown":
            cause = "half_uncommitted"
        elif not begun and (by_filter := _filtered(cluster, message, group)):
            cause = by_filter
        elif message["msg_type"] == "delay" and cluster.watermark < due:
            cause = "delayed_not_due"
        elif message["batch_size"] > 1 and not begun:
            cause = "untraced_batch"
        elif cluster.watermark < due + grace(cluster):
            cause = "within_grace"
        elif group is None and not begun:
            cause = "no_traced_group"
        elif outcomes["in_flight"]:
            cause = "in_flight"
        elif outcomes["not_returned"]:
            cause = "not_returned"
        else:
            cause, is_proven = _by_offsets(cluster, message, group, attempted)
        found[topic, msg_id, group] = {
            "cause": cause,
            "is_orphan": cause == "no_traced_group" or cause in IN_RATE,
            "counts_in_orphan_rate": cause in IN_RATE,
            "evidence": "proven" if is_proven else _evidence(cause),
            "published_at": message["published_at"],
            "due_at": due,
        }
    return found


def _evidence(cause: str) -> str:
    if cause in ("rolled_back", "recalled", "filtered", "in_flight"):
        return "proven"
    inferred = (
        *("half_uncommitted", "delayed_not_due", "untraced_batch", "not_returned", "in_backlog"),
        *("backlog_overdue", "untraced_consumer", "passed_untraced"),
    )
    return "inferred" if cause in inferred else "unknown"


def _by_offsets(cluster: Cluster, message: Record, group: str | None, attempted: Rows) -> tuple[str, bool]:
    """The cause of a message of which the group has no record, by the offsets of the group; and whether it is proven."""
    progress = _progress(cluster, message["topic"], group)
    if progress is None:
        return "filtered_or_lost", False
    passed_to, not_reached_from = progress
    if passed_to is not None and message["due_at"] + grace(cluster) <= passed_to:
        traced_since = any(
            (a["topic"], a["consumer_group"]) == (message["topic"], group)
            and a["occurred_at"] >= message["published_at"]
            for a in attempted.values()
        )
        return "passed_untraced" if traced_since else "untraced_consumer", False
    limit = timedelta(seconds=cluster.limits.backlog_seconds)
    cause = "in_backlog" if cluster.watermark < message["due_at"] + limit else "backlog_overdue"
    is_proven = (
        _is_wanted(message, _subscriptions(cluster, message, group))
        and not_reached_from is not None
        and message["published_at"] >= not_reached_from + grace(cluster)
    )
    return cause, is_proven


def _progress(
    cluster: Cluster, topic: str, group: str | None
) -> tuple[datetime | None, datetime | None] | None:
    """Up to when the group has passed all messages, and from when on it has reached none; None where nothing is known."""
    last = cluster.collections[-1] if cluster.collections else None
    if last is None or group not in last.groups or group in last.broadcasting:
        return None
    passed: list[datetime | None] = []
    not_reached: list[datetime | None] = []
    lag = timedelta(seconds=cluster.limits.offsets_lag_seconds)
    for each, offset in last.offsets.items():
        if (name(each[0]), each[1]) != (topic, group):
            continue
        ends = _changes([(c.at, c.ends[each[0]]) for c in cluster.collections])
        times = [at for at, end in ends if end is not None and end <= offset]
        if last.ends[each[0]] <= offset and last.at - ends[-1][0] >= lag:
            times.append(last.at)
        passed.append(max(times, default=None))
        moved_at, _ = _changes([(c.at, c.offsets.get(each)) for c in cluster.collections])[-1]
        not_reached.append(moved_at if last.at - moved_at >= lag else None)
    if not passed:
        return None
    return (
        None if None in passed else min(at for at in passed if at),
        None if None in not_reached else max(at for at in not_reached if at),
    )


def _changes(seen: list[tuple[datetime, int | None]]) -> list[tuple[datetime, int | None]]:
    """The first of each run of equal values."""
    return [each for index, each in enumerate(seen) if index == 0 or seen[index - 1][1] != each[1]]


def _filtered(cluster: Cluster, message: Record, group: str | None) -> str | None:
    """The cause, if the group's subscriptions at the publication kept the message from it, or may have."""
    valid = _subscriptions(cluster, message, group)
    if not valid or _is_wanted(message, valid):
        return None
    is_of_batch = message["tags"] is None and message["batch_size"] > 1
    return "filter_unknown" if is_of_batch or any(s.is_sql for s in valid) else "filtered"


def _subscriptions(cluster: Cluster, message: Record, group: str | None) -> list[Subscription]:
    """Those of the group that were valid when the message was published."""
    at = message["published_at"]
    return [
        each
        for each in cluster.subscriptions
        if (each.topic, each.group) == (message["topic"], group)
        and each.start <= at
        and (each.end is None or at < each.end)
    ]


def _is_wanted(message: Record, subscriptions: list[Subscription]) -> bool:
    """Whether one of the subscriptions includes the message."""
    return any(not s.is_sql and (not s.tags or message["tags"] in s.tags) for s in subscriptions)


def _in_gap(cluster: Cluster, message: Record, gap: tuple[datetime | None, datetime]) -> bool:
    start, end = gap
    last = message["due_at"] + consume_timeout(cluster) + grace(cluster)
    return message["published_at"] <= end and (start is None or last >= start)


def orphan_rate(cluster: Cluster, messages: Rows, expected: dict[Key, set[str]], orphaned: Rows) -> Rows:
    """By topic, expected group and hour of publication; judged are the orphaned, and the consumed past their grace."""
    sums: dict[Key, Counter[str]] = defaultdict(Counter)
    for key, message in messages.items():
        for group in expected[key]:
            of_hour = sums[message["topic"], group, hour_of(message["published_at"])]
            row = orphaned.get((*key, group))
            of_hour["expected"] += 1
            of_hour["consumed"] += row is None
            counts = bool(row and row["counts_in_orphan_rate"])
            of_hour["orphaned"] += counts
            if row:
                of_hour[row["cause"]] += 1
                of_hour[f"orphaned_{row['evidence']}"] += counts
            past_grace = cluster.watermark >= message["due_at"] + grace(cluster)
            of_hour["judged"] += counts or (row is None and past_grace)
    evidences = ("orphaned_proven", "orphaned_inferred", "orphaned_unknown")
    causes = ("filtered", "filter_unknown", "untraced_consumer", "in_backlog", *IN_RATE)
    columns = ("expected", "consumed", "judged", "orphaned", *causes, *evidences)
    return {key: {column: counts[column] for column in columns} for key, counts in sums.items()}
