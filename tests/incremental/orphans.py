"""The section on orphans of docs/definitions.md in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta

from tests.incremental.broadcasting import inferred_broadcast_groups, was_ever_broadcast
from tests.incremental.cluster import (
    Check,
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
IN_RATE = (
    *("not_returned", "dead_letter", "skipped", "lost_trace", "passed_untraced", "backlog_overdue"),
    *("broadcasting", "gone", "filtered_or_lost"),
)


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
    expected = {
        key: {
            group
            for topic, group, at in seen
            if topic == message["topic"] and at <= message["published_at"] <= at + back
        }
        for key, message in messages.items()
    }
    inferred = inferred_broadcast_groups(cluster, attempted)
    for (topic, _), message in messages.items():
        of_topic = [each for each in cluster.subscriptions if each.topic == topic]
        for each in (each for each in of_topic if each in _subscriptions(cluster, message, each.group)):
            attempts = [at for to, group, at in seen if (to, group) == (topic, each.group)]
            is_before = attempts and min(attempts) - back <= message["published_at"] <= min(attempts)
            if is_before and not was_ever_broadcast(cluster, each.group, inferred):
                expected[topic, message["msg_id"]].add(each.group)
    return expected


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
        at, check = last_check(cluster, topic, msg_id, group)
        said = _look_up(cluster, message, group, at, check, begun)
        broker_due = check.due_at if check and check.state == "not_delivered" else None
        deliverable = max(due, broker_due) if broker_due else due
        is_delivered = said in ("consumed", "passed", "not_reached", "dead_letter")
        if msg_id in in_gap:
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
        elif not begun and not is_delivered and (by_filter := _filtered(cluster, message, group)):
            cause = by_filter
        elif message["msg_type"] == "delay" and cluster.watermark < due:
            cause = "delayed_not_due"
        elif (
            (message["batch_size"] > 1 or (check and check.is_of_batch))
            and not begun
            and said not in ("not_reached", "dead_letter")
            and not (check and _is_skipped(cluster, message, group, attempted, check))
        ):
            cause = "untraced_batch"
        elif cluster.watermark < deliverable + grace(cluster):
            cause = "within_grace"
        elif group is None and not begun:
            cause = "untraced_consumer" if _is_read_untraced(cluster, message) else "no_traced_group"
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
            "messages_behind": _first_digit(_behind(cluster, topic, group))
            if cause in ("in_backlog", "backlog_overdue")
            else None,
        }
    return found


def _evidence(cause: str) -> str:
    proven = ("rolled_back", "recalled", "filtered", "in_flight", "dead_letter", "skipped", "group_deleted")
    if cause in proven:
        return "proven"
    inferred = (
        *("half_uncommitted", "delayed_not_due", "untraced_batch", "not_returned", "in_backlog"),
        *("backlog_overdue", "untraced_consumer", "lost_trace", "passed_untraced"),
    )
    return "inferred" if cause in inferred else "unknown"


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
    deleted = _deleted(cluster, topic, group)
    progress = None if deleted else _progress(cluster, topic, group)
    passed_to, not_reached_from = progress or (None, None)
    is_passed = passed_to is not None and deliverable + limit <= passed_to
    if said in ("consumed", "passed") or (is_passed and said != "not_reached"):
        if check and _is_skipped(cluster, message, group, attempted, check):
            return "skipped", True
        is_known = progress is not None or deleted is not None
        traced = _attempts(attempted, topic, group)
        if is_known and (not traced or max(traced) < published or min(traced) > published):
            return "untraced_consumer", False
        if check and at and _tracing_clients(cluster, check, at) == "some":
            return "untraced_consumer", False
        if said == "consumed" and _is_trace_incomplete(attempted, message, group):
            return "lost_trace", False
        is_repeated = check is not None and at is not None and _is_dropped_repeatedly(cluster, check, at)
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
        _is_wanted(message, _subscriptions(cluster, message, group))
        and not_reached_from is not None
        and published >= not_reached_from + limit
    )
    return cause, is_proven


def _is_trace_incomplete(attempted: Rows, message: Record, group: str | None) -> bool:
    """Whether an attempt of the group on the topic, in the hour of the publication, lacks its begin or its end."""
    at = hour_of(message["published_at"])
    return any(
        (a["topic"], a["consumer_group"], hour_of(a["occurred_at"])) == (message["topic"], group, at)
        and (a["outcome"] == "not_returned" or not a["has_begin"])
        for a in attempted.values()
    )


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


def _look_up(
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
    valid = _subscriptions(cluster, message, group)
    is_wanted = _is_wanted(message, valid)
    if check.state == "filtered":  # 4
        return "filter_unknown" if is_wanted else "filtered"
    is_unknown = not is_wanted and any(s.is_sql for s in valid)
    is_in_queue = check.state in ("not_consumed", "offline")
    if is_in_queue and not is_unknown and not _is_passed(cluster, check):  # 5
        return "not_reached"
    if is_in_queue or check.state in ("consumed", "consumed_or_filtered"):
        if is_unknown:  # 6
            return "filter_unknown"
        if valid and not is_wanted and message["tags"] is not None:
            return "filtered"
        if any(
            (s.topic, s.group) == (message["topic"], group)
            and message["published_at"] < s.start <= at
            and not _is_wanted(message, [s])
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


def _offsets(cluster: Cluster, check: Check) -> list[tuple[datetime, int]]:
    """The recorded offsets of the group in the queue of the message, the first one first; none where they are of several."""
    if check.queue_offset is None:
        return []
    names = {
        each
        for c in cluster.collections
        for each in c.offsets
        if (name(each[0]), name(each[1])) == (check.topic, check.group)
    }
    if len(names) != 1:
        return []
    each = names.pop()
    seen = _changes([(c.at, c.offsets.get(each)) for c in cluster.collections])
    return [(at, offset) for at, offset in seen if offset is not None]


def _is_passed(cluster: Cluster, check: Check) -> bool:
    offsets = _offsets(cluster, check)
    return bool(offsets) and check.queue_offset is not None and offsets[-1][1] > check.queue_offset


def _attempts(attempted: Rows, topic: str, group: str | None) -> list[datetime]:
    """When the attempts of the group on the topic began, or ended if that is unknown."""
    return [
        a["occurred_at"] for a in attempted.values() if (a["topic"], a["consumer_group"]) == (topic, group)
    ]


def _is_skipped(cluster: Cluster, message: Record, group: str | None, attempted: Rows, check: Check) -> bool:
    """Whether the offset was set over the message: no consumer was connected, and none was given the message."""
    jumped = _jumped_offline(cluster, check)
    if jumped is None or check.queue_offset is None:
        return False
    pulled = {
        c.at: pull_offset
        for c in cluster.collections
        for each, pull_offset in c.pull_offsets.items()
        if (name(each[0]), name(each[1])) == (check.topic, check.group)
    }
    offsets = _offsets(cluster, check)
    traced = _attempts(attempted, check.topic, group)
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


def _tracing_clients(cluster: Cluster, check: Check, at: datetime) -> str | None:
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


def _is_dropped_repeatedly(cluster: Cluster, check: Check, at: datetime) -> bool:
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
    if check.state != "consumed" or _tracing_clients(cluster, check, at) != "all":
        return None
    stored = min(check.stored_at, at) if check.stored_at else at
    above = [
        seen
        for seen, offset in _offsets(cluster, check)
        if check.queue_offset is not None and offset > check.queue_offset and seen >= stored
    ]
    return stored, min([*above, at])


def _jumped_offline(cluster: Cluster, check: Check) -> datetime | None:
    """When the offset passed the message for the first time, if no consumer of the group was connected then; else None."""
    offsets = _offsets(cluster, check)
    lag = timedelta(seconds=cluster.limits.offsets_lag_seconds)
    passing = [
        n
        for n, (_, offset) in enumerate(offsets)
        if check.queue_offset is not None and offset > check.queue_offset
    ]
    if not passing or passing[0] == 0:
        return None
    (recorded, _), (jumped, _) = offsets[passing[0] - 1], offsets[passing[0]]
    was_offline = [
        c.at
        for c in cluster.collections
        if c.at < jumped and _has_been_offline(cluster, check.group, c.at, jumped)
    ]
    return jumped if any(at <= recorded or at >= recorded + lag for at in was_offline) else None


def _has_been_offline(cluster: Cluster, group: str, start: datetime, end: datetime) -> bool:
    return all(group not in c.online for c in cluster.collections if start <= c.at <= end)


def _deleted(cluster: Cluster, topic: str, group: str | None) -> datetime | None:
    """If the group was deleted: since when it had reached no message of the topic."""
    known = [n for n, c in enumerate(cluster.collections) if group in c.groups]
    if not known or known[-1] == len(cluster.collections) - 1:
        return None
    deleted = cluster.collections[known[-1] + 1].at
    lag = timedelta(seconds=cluster.limits.offsets_lag_seconds)
    found = []
    for each in {each for c in cluster.collections for each in c.offsets}:
        if (name(each[0]), name(each[1])) != (topic, group):
            continue
        seen = _changes([(c.at, c.offsets.get(each)) for c in cluster.collections])
        before = [n for n, (at, offset) in enumerate(seen) if offset is not None and at < deleted]
        if not before:
            continue
        recorded, next_at = seen[before[-1]][0], [at for at, _ in seen[before[-1] + 1 :]]
        stood = recorded <= deleted - lag and (not next_at or next_at[0] > deleted)
        found.append(recorded if stood else deleted)
    return max(found, default=None)


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


def _behind(cluster: Cluster, topic: str, group: str | None) -> int | None:
    """How many messages the group is behind on the topic; None where it is unknown."""
    last = cluster.collections[-1] if cluster.collections else None
    if last is None or group not in last.groups or group in last.broadcasting:
        return None
    behind = [
        max(last.ends[each] - offset, 0)
        for (each, of_group), offset in last.offsets.items()
        if (name(each), of_group) == (topic, group)
    ]
    return behind[0] if len(behind) == 1 else None


def _first_digit(number: int | None) -> int | None:
    return None if number is None else int(str(number)[0] + "0" * (len(str(number)) - 1))


def _changes(seen: list[tuple[datetime, int | None]]) -> list[tuple[datetime, int | None]]:
    """The first of each run of equal values."""
    return [each for index, each in enumerate(seen) if index == 0 or seen[index - 1][1] != each[1]]


def _filtered(cluster: Cluster, message: Record, group: str | None) -> str | None:
    """The cause, if the group's subscriptions at the publication kept the message from it, or may have."""
    valid = _subscriptions(cluster, message, group)
    if not valid or _is_wanted(message, valid):
        return None
    # Of a batch of one message the Pub shows neither the batch nor its tags.
    return "filter_unknown" if message["tags"] is None or any(s.is_sql for s in valid) else "filtered"


def _is_read_untraced(cluster: Cluster, message: Record) -> bool:
    """Whether a group reads a message that no group is expected to consume."""
    groups = {each.group for each in cluster.subscriptions}
    groups |= {each.group for c in cluster.collections for each in c.checks}
    return any(_reads(cluster, message, group) for group in groups)


def _reads(cluster: Cluster, message: Record, group: str) -> bool:
    """Whether the group reads the message, by its subscriptions at the publication or by the last look-up."""
    _, check = last_check(cluster, message["topic"], message["msg_id"], group)
    state = check.state if check else None
    valid = _subscriptions(cluster, message, group)
    if state in ("dead_letter", "retrying") or _is_wanted(message, valid):
        return True
    if valid:
        return _filtered(cluster, message, group) == "filter_unknown" and state != "filtered"
    if check and state in ("not_consumed", "offline"):
        return _is_passed(cluster, check)
    return state in ("consumed", "consumed_or_filtered")


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
