"""Search messages by topic, group, time, state and duration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_jobs.lookup.find import messages_with_key
from spark_jobs.lookup.reader import HOUR, Reader, Row, Span
from spark_jobs.lookup.wording import STATES

LIMIT = 100
DEFAULT_SPAN = timedelta(hours=24)
LONGEST_SPAN = timedelta(days=400)
_MESSAGE = "cluster as of_cluster, topic as of_topic, msg_id as of_msg_id"


class SearchError(ValueError):
    """A condition that cannot be searched for; the message says which and what to write."""


@dataclass(frozen=True)
class Conditions:
    """What the messages must have; None for any.

    Attributes:
        cluster: RocketMQ cluster.
        topic: topic that it was sent to.
        group: consumer group that attempted it, or was expected to consume it.
        state: as in fct_messages.
        start: published at this time or later (a message without a send: first attempted), UTC.
        end: published before this time.
        key: one of its keys. Without a start, the search begins before the first record with the key.
        min_ms: the longest time from the publication to the success in a group (of `group`, if given) is at least this.
    """

    cluster: str | None = None
    topic: str | None = None
    group: str | None = None
    state: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    min_ms: int | None = None
    key: str | None = None

    @classmethod
    def parse(
        cls,
        cluster: str = "",
        topic: str = "",
        group: str = "",
        state: str = "",
        start: str = "",
        end: str = "",
        min_ms: str = "",
        key: str = "",
    ) -> Conditions:
        """Conditions from texts, as a form or a command line has them; an empty text is no condition.

        Raises:
            SearchError: a text cannot be parsed.
        """
        texts = {"cluster": cluster, "topic": topic, "group": group, "key": key}
        for name, text in texts.items():
            if text != text.encode("utf-8", "replace").decode():
                raise SearchError(f"{name} {text!r} is not UTF-8")
        if state and state not in STATES:
            raise SearchError(f"state {state!r} is none of {', '.join(STATES)}")
        if min_ms and not (min_ms.isascii() and min_ms.isdigit() and len(min_ms) < 16):
            raise SearchError(f"minimum duration {min_ms!r} is not a number of milliseconds")
        return cls(
            cluster=cluster or None,
            topic=topic or None,
            group=group or None,
            state=state or None,
            start=_time("start", start),
            end=_time("end", end),
            min_ms=int(min_ms) if min_ms else None,
            key=key or None,
        )


@dataclass(frozen=True)
class Hit:
    """A message that a search found; `end_to_end_ms` is the longest of its deliveries."""

    cluster: str
    msg_id: str
    topic: str | None
    state: str
    at: datetime
    producer_group: str | None
    consumer_groups: int
    end_to_end_ms: int | None


@dataclass(frozen=True)
class Hits:
    """Messages, newest first, at most `LIMIT`; the number of all; and the range of time that was searched, UTC."""

    rows: tuple[Hit, ...]
    total: int
    start: datetime
    end: datetime


def search(reader: Reader, conditions: Conditions, now: datetime | None = None) -> Hits:
    """The messages that meet all conditions.

    Args:
        reader: an open serving file.
        conditions: without a start or key, `DEFAULT_SPAN` before the end; without an end, up to an hour after the
            newest watermark.
        now: the end of the search where no watermark is known; default: when the serving file was built.

    Raises:
        SearchError: the range of time is empty or too long.
    """
    newest = max((w for w in reader.watermarks.values() if w), default=now or reader.built_at)
    with_key: list[Row] | None = None
    end = conditions.end or newest + HOUR
    start = conditions.start or end - DEFAULT_SPAN
    if conditions.key is not None:
        with_key, hours = messages_with_key(reader, conditions.key, conditions.cluster)
        if conditions.start is None and hours:
            limits = reader.settings.limits
            # The key may be only in the record of the end of an attempt.
            before = timedelta(seconds=limits.max_delay_seconds + limits.retry_horizon_seconds)
            start = max(min(start, min(hours) - before), end - LONGEST_SPAN)
    if start >= end:
        raise SearchError(f"the start {start} UTC is not before the end {end} UTC")
    if end - start > LONGEST_SPAN:
        raise SearchError(f"the range of time is longer than {LONGEST_SPAN.days} days")
    messages, parameters = reader.source("marts.fct_messages", Span(start, end))
    parameters |= {"start": start, "end": end}
    where = [
        "coalesce(published_at, first_attempt_at, hour) >= $start and coalesce(published_at, first_attempt_at, hour) < $end"
    ]
    of_delivery = []
    for name in ("cluster", "topic", "state"):
        if (value := getattr(conditions, name)) is not None:
            where.append(f"{name} = ${name}")
            parameters[name] = value
            if name != "state":
                of_delivery.append(f"{name} = ${name}")
    if with_key is not None:
        where.append(
            "(cluster, msg_id) in (select (c, m) from (select unnest($clusters::varchar[]) as c, unnest($ids::varchar[]) as m))"
        )
        parameters |= {
            "clusters": [row["cluster"] for row in with_key],
            "ids": [row["msg_id"] for row in with_key],
        }
    joined, longest = "", "null::bigint"
    if conditions.group is not None or conditions.min_ms is not None:
        # A delivery is in the hour of its first attempt: any time after the publication, and before it if clocks differ.
        deliveries, files = reader.source("marts.fct_deliveries", Span(start - HOUR, max(end, newest + HOUR)))
        parameters |= files
        if conditions.group is not None:
            of_delivery.append("consumer_group = $consumer_group")
            parameters["consumer_group"] = conditions.group
        joined = _joined(
            "delivered",
            f"select {_MESSAGE}, max(end_to_end_ms) as end_to_end_ms from {deliveries} "
            f"where {' and '.join(of_delivery) or 'true'} group by all",
        )
        longest = "end_to_end_ms"
    if conditions.group is not None:
        orphaned, files = reader.source("marts.orphaned_messages", Span(start, end))
        parameters |= files
        joined += _joined(
            "expected",
            f"select distinct {_MESSAGE} from {orphaned} where expected_group = $consumer_group",
        )
        where.append("(delivered.of_msg_id is not null or expected.of_msg_id is not null)")
    if conditions.min_ms is not None:
        where.append("end_to_end_ms >= $min_ms")
        parameters["min_ms"] = conditions.min_ms
    rows = reader.query(
        f"""
        select cluster, msg_id, topic, state, coalesce(published_at, first_attempt_at, hour) as seen_at, producer_group,
          consumer_groups, {longest} as end_to_end_ms, count(*) over () as total
        from {messages} as messages {joined}
        where {" and ".join(where)}
        order by seen_at desc, msg_id limit {LIMIT}
        """,
        **parameters,
    )
    total = rows[0]["total"] if rows else 0
    hits = tuple(
        Hit(
            row["cluster"],
            row["msg_id"],
            row["topic"],
            row["state"],
            row["seen_at"],
            row["producer_group"],
            row["consumer_groups"],
            row["end_to_end_ms"],
        )
        for row in rows
    )
    return Hits(hits, total, start, end)


def _joined(name: str, relation: str) -> str:
    """A join of the messages with a relation that has the columns of `_MESSAGE`; the topic may be NULL."""
    return (
        f" left join ({relation}) as {name} on messages.cluster = {name}.of_cluster "
        f"and messages.msg_id = {name}.of_msg_id and messages.topic is not distinct from {name}.of_topic"
    )


def _time(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SearchError(f"{name} {text!r} is not a time such as 2026-11-24T13:30, in UTC") from None
    if time.tzinfo is not None:
        raise SearchError(f"{name} {text!r} has a time zone: write the time in UTC, such as 2026-11-24T13:30")
    if not 1970 <= time.year <= 9000:
        raise SearchError(f"{name} {text!r} is not a time of this warehouse")
    return time
