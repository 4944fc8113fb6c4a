"""Which groups are expected to consume a message, and when it is due."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.incremental.cluster import Cluster, Key, Record, Rows, Subscription, max_delay, name
from tests.incremental.definitions.broadcasting import inferred_broadcast_groups, was_ever_broadcast


def due_at(cluster: Cluster, message: Record, ends: list[Record] | None) -> datetime:
    if message["msg_type"] == "delay":
        return message["published_at"] + max_delay(cluster)
    commits = [end["decided_at"] for end in ends or [] if end["state"] == "commit"]
    return commits[-1] if commits else message["published_at"]


def expected_groups(cluster: Cluster, messages: Rows, attempted: Rows) -> dict[Key, set[str]]:
    """The groups that are expected to consume each message: those with an attempt on its topic in the look-back, but a retry."""
    back = timedelta(days=cluster.limits.expected_group_lookback_days)
    seen = [
        (a["topic"], a["consumer_group"], a["occurred_at"])
        for a in attempted.values()
        if a["topic"] is not None and a["consumer_group"] is not None and not a["retry_times"]
    ]
    stopped = {
        pair: without_subscription(cluster, *pair, [at for *of, at in seen if tuple(of) == pair])
        for pair in {(topic, group) for topic, group, _ in seen}
    }
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
        for each in (each for each in of_topic if each in subscriptions_of(cluster, message, each.group)):
            attempts = [at for to, group, at in seen if (to, group) == (topic, each.group)]
            is_before = attempts and min(attempts) - back <= message["published_at"] <= min(attempts)
            if is_before and not was_ever_broadcast(cluster, each.group, inferred):
                expected[topic, message["msg_id"]].add(each.group)
    return {
        (topic, msg_id): {
            group
            for group in groups
            if not any(
                since <= messages[topic, msg_id]["published_at"] < until
                for since, until in stopped[topic, group]
            )
        }
        for (topic, msg_id), groups in expected.items()
    }


def without_subscription(
    cluster: Cluster, topic: str, group: str, attempts: list[datetime]
) -> list[tuple[datetime, datetime]]:
    """The times in which the group, which the brokers know, does not subscribe to the topic any more, and attempts nothing.

    From the hour after the end of its subscription on.
    """
    periods: list[tuple[datetime, datetime]] = []
    for each in sorted(cluster.subscriptions, key=lambda each: each.start):
        if (each.topic, each.group) == (topic, group):
            end = each.end or datetime.max
            if periods and each.start <= periods[-1][1]:
                periods[-1] = (periods[-1][0], max(end, periods[-1][1]))
            else:
                periods.append((each.start, end))
    known = {collection.at: {name(each) for each in collection.groups} for collection in cluster.collections}
    found = []
    for number, (_, end) in enumerate(periods):
        if group not in known.get(end, ()):
            continue
        since = end.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        again = [
            *(start for start, _ in periods[number + 1 : number + 2]),
            *(at for at in attempts if at >= since),
        ]
        found.append((since, min(again, default=datetime.max)))
    return found


def subscriptions_of(cluster: Cluster, message: Record, group: str | None) -> list[Subscription]:
    """Those of the group that were valid when the message was published."""
    at = message["published_at"]
    return [
        each
        for each in cluster.subscriptions
        if (each.topic, each.group) == (message["topic"], group)
        and each.start <= at
        and (each.end is None or at < each.end)
    ]


def wants(message: Record, subscriptions: list[Subscription]) -> bool:
    """Whether one of the subscriptions includes the message."""
    return any(not s.is_sql and (not s.tags or message["tags"] in s.tags) for s in subscriptions)


def filtered_cause(cluster: Cluster, message: Record, group: str | None) -> str | None:
    """The cause, if the group's subscriptions at the publication kept the message from it, or may have."""
    valid = subscriptions_of(cluster, message, group)
    if not valid or wants(message, valid):
        return None
    # Of a batch of one message the Pub shows neither the batch nor its tags.
    return "filter_unknown" if message["tags"] is None or any(s.is_sql for s in valid) else "filtered"
