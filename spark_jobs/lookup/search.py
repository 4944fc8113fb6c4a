"""Search messages by topic, group, time, state and duration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_jobs.lookup.reader import Reader, hours_between
from spark_jobs.lookup.wording import STATES

LIMIT = 100
DEFAULT_SPAN = timedelta(hours=24)
LONGEST_SPAN = timedelta(days=400)


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
        min_ms: the longest time from the publication to the success in a group (of `group`, if given) is at least this.
    """

    cluster: str | None = None
    topic: str | None = None
    group: str | None = None
    state: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    min_ms: int | None = None

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
    ) -> Conditions:
        """Conditions from texts, as a form or a command line has them; an empty text is no condition.

        Raises:
            SearchError: a text cannot be parsed.
        """
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
        conditions: without a start, `DEFAULT_SPAN` before the end; without an end, up to the newest watermark.
        now: the end of the search where no watermark is known; default: when the serving file was built.

    Raises:
        SearchError: the range of time is empty or too long.
    """
    newest = max((w for w in reader.watermarks.values() if w), default=now or reader.built_at)
    end = conditions.end or newest + timedelta(hours=1)
    start = conditions.start or end - DEFAULT_SPAN
    if start >= end:
        raise SearchError(f"the start {start} UTC is not before the end {end} UTC")
    if end - start > LONGEST_SPAN:
        raise SearchError(f"the range of time is longer than {LONGEST_SPAN.days} days")
    hours = hours_between(start, end)
    messages, of_messages = reader.source("marts.fct_messages", hours)
    parameters: dict[str, object] = {**of_messages, "start": start, "end": end}
    where = [
        "coalesce(published_at, first_attempt_at, hour) >= $start and coalesce(published_at, first_attempt_at, hour) < $end"
    ]
    for name in ("cluster", "topic", "state"):
        if (value := getattr(conditions, name)) is not None:
            where.append(f"{name} = ${name}")
            parameters[name] = value
    joined, longest = "", "null::bigint"
    if conditions.group is not None or conditions.min_ms is not None:
        # A delivery is in the hour of its first attempt, which is later than the publication.
        deliveries, of_deliveries = reader.source(
            "marts.fct_deliveries", hours_between(start, newest + timedelta(hours=1))
        )
        parameters |= of_deliveries
        of_group = ""
        if conditions.group is not None:
            of_group, parameters["consumer_group"] = (
                "where consumer_group = $consumer_group",
                conditions.group,
            )
        joined = (
            "left join (select cluster, msg_id, max(end_to_end_ms) as end_to_end_ms, true as is_attempted "
            f"from {deliveries} {of_group} group by all) as delivered using (cluster, msg_id)"
        )
        longest = "end_to_end_ms"
    if conditions.group is not None:
        orphaned, of_orphaned = reader.source("marts.orphaned_messages", hours)
        parameters |= of_orphaned
        where.append(
            f"(is_attempted or (cluster, msg_id) in (select (cluster, msg_id) from {orphaned} "
            "where expected_group = $consumer_group))"
        )
    if conditions.min_ms is not None:
        where.append("end_to_end_ms >= $min_ms")
        parameters["min_ms"] = conditions.min_ms
    rows = reader.query(
        f"""
        select cluster, msg_id, topic, state, coalesce(published_at, first_attempt_at, hour) as seen_at, producer_group,
          consumer_groups, {longest} as end_to_end_ms, count(*) over () as total
        from {messages} {joined}
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
