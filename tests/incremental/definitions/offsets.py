"""What the offsets that a group committed say of a message."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.incremental.cluster import Check, Cluster, name


def offsets_of(cluster: Cluster, check: Check) -> list[tuple[datetime, int]]:
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


def is_passed(cluster: Cluster, check: Check) -> bool:
    offsets = offsets_of(cluster, check)
    return bool(offsets) and check.queue_offset is not None and offsets[-1][1] > check.queue_offset


def jumped_offline(cluster: Cluster, check: Check) -> datetime | None:
    """When the offset passed the message for the first time, if no consumer of the group was connected then; else None."""
    offsets = offsets_of(cluster, check)
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


def deleted_at(cluster: Cluster, topic: str, group: str | None) -> datetime | None:
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


def progress_of(
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


def behind(cluster: Cluster, topic: str, group: str | None) -> int | None:
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


def first_digit(number: int | None) -> int | None:
    return None if number is None else int(str(number)[0] + "0" * (len(str(number)) - 1))


def _changes(seen: list[tuple[datetime, int | None]]) -> list[tuple[datetime, int | None]]:
    """The first of each run of equal values."""
    return [each for index, each in enumerate(seen) if index == 0 or seen[index - 1][1] != each[1]]
