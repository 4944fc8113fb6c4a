"""The section on trace coverage of docs/definitions.md in plain Python; all brokers are one, and it answers each collection."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.incremental.cluster import (
    Cluster,
    Collection,
    Key,
    Record,
    Rows,
    decision,
    grace,
    hour_of,
    name,
)

HOUR = timedelta(hours=1)


def trace_coverage(
    cluster: Cluster,
    messages: Rows,
    found: dict[str, Rows],
    ends: dict[str, list[Record]],
    recalled: set[str | None],
) -> Rows:
    """One row per side, topic, consumer group and hour with traced messages, or with some that the brokers count."""
    counted = _counted(cluster)
    traced: Counter[Key] = Counter()
    for message in messages.values():
        at = _arrived_at(message, found, ends, recalled)
        if message["topic"] is not None and at is not None:
            traced["producer", message["topic"], None, hour_of(at)] += 1
    broadcast, without_topic = set(), set()
    for (_, group, _), delivery in found["fct_deliveries"].items():
        hour, topic = delivery["hour"], delivery["topic"]
        if topic is None:
            on = {t for side, t, g, h in counted if (side, g, h) == ("consumer", group, hour)}
            topic = on.pop() if len(on) == 1 else None
        if topic is None:
            without_topic.add((group, hour))
        traced["consumer", topic, group, hour] += 1
        if delivery["is_broadcast"]:
            broadcast.add((topic, group, hour))
    rows: Rows = {}
    for key in traced.keys() | counted.keys():
        side, topic, group, hour = key
        growth, unknown = counted.get(key, (None, "not_recorded"))
        if cluster.watermark < hour + HOUR + grace(cluster):
            unknown = "open"
        elif (topic, group, hour) in broadcast or _is_broadcasting(cluster, group, hour):
            unknown = "broadcasting"
        elif (group, hour) in without_topic:
            unknown = "topic_unknown"
        elif unknown is None and side == "consumer" and not _gets_all(cluster, topic, group, hour):
            unknown = "filtered"
        broker_messages = None if unknown else growth
        if traced[key] or broker_messages:
            rows[key] = {
                "broker_messages": broker_messages,
                "traced": traced[key],
                "traced_known": 0 if unknown else traced[key],
                "hours_known": 0 if unknown else 1,
                "unknown_reason": unknown,
            }
    return rows


def untraced_clients(cluster: Cluster, found: dict[str, Rows]) -> Rows:
    """Connected groups without a trace in the look-back, and those of which only some clients trace."""
    if not cluster.collections:
        return {}
    last = cluster.collections[-1]
    since = cluster.watermark - timedelta(days=cluster.limits.expected_group_lookback_days)
    rows: Rows = {}
    for side, group in last.connected:
        traced = (
            [send["sent_at"] for send in found["fct_sends"].values() if send["producer_group"] == group]
            if side == "producer"
            else [
                a["occurred_at"]
                for a in found["fct_consume_attempts"].values()
                if a["consumer_group"] == group
            ]
        )
        at, clients = max(traced, default=None), 2 if group in last.two_clients else 1
        tracing = int((side, group) in last.tracing)
        if 0 < tracing < clients or (not tracing and (at is None or at < since)):
            rows[side, group] = {"last_trace_at": at, "clients": clients, "tracing_clients": tracing}
    return rows


def _arrived_at(
    message: Record, found: dict[str, Rows], ends: dict[str, list[Record]], recalled: set[str | None]
) -> datetime | None:
    begun = [
        row["first_attempt_at"]
        for (msg_id, *_), row in found["fct_deliveries"].items()
        if (row["topic"], msg_id) == (message["topic"], message["msg_id"])
    ]
    begun += [
        row["occurred_at"]
        for (_, msg_id), row in found["fct_consume_attempts"].items()
        if row["consumer_group"] is None and (row["topic"], msg_id) == (message["topic"], message["msg_id"])
    ]
    first = min(begun, default=None)
    state = decision(ends.get(message["msg_id"])) or ("undecided" if message["msg_type"] == "half" else None)
    if message["msg_id"] in recalled:
        return None
    if message["msg_type"] == "delay":
        return first or message["due_at"]
    by_state = {"rollback": None, "commit": message["due_at"], None: message["published_at"]}
    return by_state.get(state, first)


def _counted(cluster: Cluster) -> dict[Key, tuple[int | None, str | None]]:
    """The growth of the offsets in each hour at whose bounds one is recorded, or why it is unknown."""
    if not cluster.collections:
        return {}
    parts: dict[Key, list[tuple[int | None, str | None]]] = defaultdict(list)
    for hour in _hours(cluster):
        start, end = _offsets_at(cluster, hour), _offsets_at(cluster, hour + HOUR)
        is_asked = _is_asked(cluster, hour) and _is_asked(cluster, hour + HOUR)
        for side, topic, group in start.keys() | end.keys():
            before, after = (each.get((side, topic, group)) for each in (start, end))
            part: tuple[int | None, str | None]
            if not is_asked or after is None or before is None:
                part = None, "not_recorded"
            elif after < before:
                part = None, "offsets_reset"
            else:
                part = after - before, None
            parts[side, name(topic), group, hour].append(part)
    rows: dict[Key, tuple[int | None, str | None]] = {}
    for key, of_names in parts.items():
        reasons = {reason for _, reason in of_names}
        unknown = next((reason for reason in ("not_recorded", "offsets_reset") if reason in reasons), None)
        rows[key] = (None if unknown else sum(growth or 0 for growth, _ in of_names), unknown)
    return rows


def _hours(cluster: Cluster) -> Iterator[datetime]:
    hour = hour_of(cluster.collections[0].at) - HOUR
    while hour <= hour_of(cluster.collections[-1].at) + HOUR:
        yield hour
        hour += HOUR


def _lag(cluster: Cluster) -> timedelta:
    return timedelta(seconds=cluster.limits.offsets_lag_seconds)


def _is_asked(cluster: Cluster, bound: datetime) -> bool:
    return any(each.at <= bound < each.at + _lag(cluster) for each in cluster.collections)


def _offsets_at(cluster: Cluster, bound: datetime) -> dict[Key, int]:
    """By side, topic and group the offset of the last collection until then; none where it is past the last one's."""
    asked = [each for each in cluster.collections if each.at <= bound]
    if not asked or bound >= cluster.collections[-1].at + _lag(cluster):
        return {}
    last: Collection = asked[-1]
    of_topics: dict[Key, int] = {("producer", topic, None): end for topic, end in last.ends.items()}
    return of_topics | {("consumer", *key): offset for key, offset in last.offsets.items()}


def _is_broadcasting(cluster: Cluster, group: str | None, hour: datetime) -> bool:
    return any(group in each.broadcasting for each in _current_in(cluster, hour))


def _current_in(cluster: Cluster, hour: datetime) -> list[Collection]:
    """The collections whose answers were current at a time of the hour."""
    ends = [*(each.at for each in cluster.collections[1:]), None]
    return [
        each
        for each, end in zip(cluster.collections, ends, strict=False)
        if each.at < hour + HOUR and (end is None or end > hour)
    ]


def _gets_all(cluster: Cluster, topic: str, group: str, hour: datetime) -> bool:
    """Whether the group is known to subscribe to all messages in the hour."""
    valid = [
        each
        for each in cluster.subscriptions
        if (each.topic, each.group) == (topic, group)
        and each.start < hour + HOUR
        and (each.end is None or each.end > hour)
    ]
    return bool(valid) and all(not each.is_sql and not each.tags for each in valid)
