"""The section on orphans of docs/definitions.md in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta

from tests.incremental.cluster import Check, Cluster, Key, Record, Rows, decision, grace, hour_of
from tests.incremental.definitions.expectations import filtered_cause, subscriptions_of, wants
from tests.incremental.definitions.lookups import attempts_on, is_skipped, last_check, look_up
from tests.incremental.definitions.offsets import behind, deleted_at, first_digit, progress_of
from tests.incremental.definitions.untraced import (
    is_dropped_repeatedly,
    is_in_gap,
    is_read_untraced,
    is_trace_incomplete,
    tracing_clients,
)

# The causes that count in the orphan rate.
IN_RATE = (
    *("not_returned", "dead_letter", "skipped", "lost_trace", "passed_untraced", "backlog_overdue"),
    *("broadcasting", "gone", "filtered_or_lost"),
)


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
        (topic, msg_id)
        for topic, msg_id, _, message, _ in unconsumed
        if any(is_in_gap(cluster, message, gap) for gap in cluster.gaps)
    }
    found: Rows = {}
    for topic, msg_id, group, message, outcomes in unconsumed:
        state = decision(ends.get(msg_id)) or ("unknown" if message["msg_type"] == "half" else None)
        begun = outcomes["in_flight"] + outcomes["not_returned"]
        due, is_proven = message["due_at"], False
        at, check = last_check(cluster, topic, msg_id, group)
        said = look_up(cluster, message, group, at, check, begun)
        broker_due = check.due_at if check and check.state == "not_delivered" else None
        deliverable = max(due, broker_due) if broker_due else due
        is_delivered = said in ("consumed", "passed", "not_reached", "dead_letter")
        if (topic, msg_id) in in_gap:
            cause = "trace_gap"
        elif state == "rollback":
            cause = "rolled_back"
        elif msg_id in recalled:
            cause = "recalled"
        elif said in (
            "filtered",
            "filter_unknown",
            "half_uncommitted",
            "delayed_not_due",
            "retrying",
            "recalled",
        ):
            cause, is_proven = said, said != "filter_unknown"
        elif state == "unknown" and not is_delivered:
            cause = "half_uncommitted"
        elif not begun and not is_delivered and (by_filter := filtered_cause(cluster, message, group)):
            cause = by_filter
        elif message["msg_type"] == "delay" and cluster.watermark < due:
            cause = "delayed_not_due"
        elif (
            (message["batch_size"] > 1 or (check and check.is_of_batch))
            and not begun
            and said not in ("not_reached", "dead_letter")
            and not (check and is_skipped(cluster, message, group, attempted, check))
        ):
            cause = "untraced_batch"
        elif cluster.watermark < deliverable + grace(cluster):
            cause = "within_grace"
        elif group is None and not begun:
            cause = "untraced_consumer" if is_read_untraced(cluster, message) else "no_traced_group"
        elif said == "dead_letter":
            cause = said
        elif outcomes["in_flight"]:
            cause = "in_flight"
        elif outcomes["not_returned"]:
            cause = "not_returned"
        else:
            cause, is_proven = _by_offsets(cluster, message, group, attempted, deliverable, said, at, check)
        found[topic, msg_id, group] = {
            "cause": cause,
            "is_orphan": cause == "no_traced_group" or cause in IN_RATE,
            "counts_in_orphan_rate": cause in IN_RATE,
            "evidence": "proven" if is_proven else _evidence(cause),
            "published_at": message["published_at"],
            "due_at": due,
            "broker_due_at": broker_due,
            "checked_at": at,
            "messages_behind": first_digit(behind(cluster, topic, group))
            if cause in ("in_backlog", "backlog_overdue")
            else None,
        }
    return found


def _by_offsets(
    cluster: Cluster,
    message: Record,
    group: str | None,
    attempted: Rows,
    deliverable: datetime,
    said: str | None,
    at: datetime | None,
    check: Check | None,
) -> tuple[str, bool]:
    """The cause of a message of which the group has no record, by the offsets of the group; and whether it is proven."""
    topic, published, limit = message["topic"], message["published_at"], grace(cluster)
    deleted = deleted_at(cluster, topic, group)
    progress = None if deleted else progress_of(cluster, topic, group)
    passed_to, not_reached_from = progress or (None, None)
    is_passed = passed_to is not None and deliverable + limit <= passed_to
    if said in ("consumed", "passed") or (is_passed and said != "not_reached"):
        if check and is_skipped(cluster, message, group, attempted, check):
            return "skipped", True
        is_known = progress is not None or deleted is not None
        traced = attempts_on(attempted, topic, group)
        if is_known and (not traced or max(traced) < published or min(traced) > published):
            return "untraced_consumer", False
        if check and at and tracing_clients(cluster, check, at) == "some":
            return "untraced_consumer", False
        if said == "consumed" and is_trace_incomplete(attempted, message, group):
            return "lost_trace", False
        is_repeated = check is not None and at is not None and is_dropped_repeatedly(cluster, check, at)
        return "passed_untraced", is_known and said == "consumed" and is_repeated
    if deleted and (said == "not_reached" or deleted + limit <= published):
        return "group_deleted", True
    if said in ("broadcasting", "gone"):
        return said, False
    if progress is None and said != "not_reached":
        return "filtered_or_lost", False
    backlog = timedelta(seconds=cluster.limits.backlog_seconds)
    cause = "in_backlog" if cluster.watermark < deliverable + backlog else "backlog_overdue"
    is_proven = said == "not_reached" or (
        wants(message, subscriptions_of(cluster, message, group))
        and not_reached_from is not None
        and published >= not_reached_from + limit
    )
    return cause, is_proven


def _evidence(cause: str) -> str:
    proven = ("rolled_back", "recalled", "filtered", "in_flight", "dead_letter", "skipped", "group_deleted")
    if cause in proven:
        return "proven"
    inferred = (
        *("half_uncommitted", "delayed_not_due", "untraced_batch", "not_returned", "in_backlog"),
        *("backlog_overdue", "untraced_consumer", "lost_trace", "passed_untraced"),
    )
    return "inferred" if cause in inferred else "unknown"


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
    causes = (
        "filtered",
        "filter_unknown",
        "retrying",
        "lost_trace",
        "untraced_consumer",
        "group_deleted",
        "in_backlog",
        *IN_RATE,
    )
    columns = ("expected", "consumed", "judged", "orphaned", *causes, *evidences)
    return {key: {column: counts[column] for column in columns} for key, counts in sums.items()}
