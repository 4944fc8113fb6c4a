"""What is doubtful about the life of a message."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from spark_jobs.lookup.life import Doubt
from spark_jobs.lookup.reader import Reader, Row
from spark_jobs.settings import Limits

# A clock that is ahead by less is not reported.
SKEW_MS = 1000


def doubts(
    reader: Reader,
    cluster: str,
    hours: list[datetime],
    messages: list[Row],
    sends: list[Row],
    attempts: list[Row],
    deliveries: list[Row],
) -> Iterator[Doubt]:
    """The reasons not to trust what the traces show of a message, whose rows in the facts are given.

    Kinds: incomplete, ingest_gap, clock_skew, suspect_time, duplicate, invalid, unpublished.
    """
    limits = reader.settings.limits
    yield from _incomplete(reader, cluster, messages)
    if not (messages or sends or attempts):
        yield Doubt(
            "unpublished",
            "only decisions on it are known: the record of its send was dropped, is in an ingest gap, or is not read yet",
        )
    yield from _gaps(reader, cluster, messages, attempts, limits)
    yield from _clocks(reader, cluster, hours, sends, attempts, deliveries)
    yield from _copies(sends, attempts, deliveries)
    yield from _invalid(reader, cluster, hours, sends, attempts)
    for cause in sorted({d["unpublished_cause"] for d in deliveries if d["unpublished_cause"]}):
        yield Doubt("unpublished", _UNPUBLISHED[cause])


_UNPUBLISHED = {
    "before_history": "no send of it is known: it was consumed soon after the history of the traces begins",
    "grpc_producer": "no send of it is known: its id is that of a gRPC producer, which writes no trace",
    "untraced_send": "no send of it is known: it was sent one-way or without trace, or the record was dropped",
}


def _incomplete(reader: Reader, cluster: str, messages: list[Row]) -> Iterator[Doubt]:
    watermark = reader.watermarks.get(cluster)
    if watermark is None:
        yield Doubt("incomplete", f"it is not known up to when the traces of cluster {cluster} are complete")
        return
    later = [m["next_review_at"] for m in messages if m["next_review_at"] and m["next_review_at"] > watermark]
    if later:
        yield Doubt(
            "incomplete",
            f"the traces are complete up to {_second(watermark)}; what is shown may change until {_second(max(later))}",
        )


def _gaps(
    reader: Reader, cluster: str, messages: list[Row], attempts: list[Row], limits: Limits
) -> Iterator[Doubt]:
    times = [m[name] for m in messages for name in ("published_at", "due_at", "last_success_at") if m[name]]
    times += [a[name] for a in attempts for name in ("occurred_at", "ended_at") if a[name]]
    if not times:
        return
    decided = max(times) + timedelta(seconds=limits.consume_timeout_seconds + limits.grace_seconds)
    gaps = reader.query(
        "select trace_topic, broker, queue_id, from_offset, to_offset, from_time, to_time from ops.ingest_gaps "
        "where cluster = $cluster and (from_time is null or from_time <= $until) and to_time >= $since order by to_time",
        cluster=cluster,
        since=min(times),
        until=decided,
    )
    for gap in gaps:
        since = f"{_second(gap['from_time'])} to " if gap["from_time"] else "up to "
        yield Doubt(
            "ingest_gap",
            f"ingest gap during its life: the broker deleted offsets {gap['from_offset']} to {gap['to_offset']} of "
            f"{gap['trace_topic']}, {gap['broker']}, queue {gap['queue_id']} before they were read ({since}"
            f"{_second(gap['to_time'])}); records of this message may be among them",
        )


def _clocks(
    reader: Reader,
    cluster: str,
    hours: list[datetime],
    sends: list[Row],
    attempts: list[Row],
    deliveries: list[Row],
) -> Iterator[Doubt]:
    for delivery in deliveries:
        for name, what in (("queue_wait_ms", "began"), ("end_to_end_ms", "was consumed")):
            if delivery[name] is not None and delivery[name] < 0:
                yield Doubt(
                    "clock_skew",
                    f"in group {delivery['consumer_group']} it {what} {-delivery[name]} ms before it was published: the clocks "
                    f"of {delivery['producer_client']} and {delivery['client']} differ",
                )
                break
    clients = sorted({row["client"] for row in (*sends, *attempts) if row["client"]})
    leads = reader.rows(
        "marts.clock_skew",
        hours,
        "cluster = $cluster and client in (select unnest($clients)) and lead_ms > $least",
        cluster=cluster,
        clients=clients,
        least=SKEW_MS,
    )
    for client in clients:
        lead = max((row["lead_ms"] for row in leads if row["client"] == client), default=0)
        if lead:
            yield Doubt(
                "clock_skew", f"the clock of {client} was ahead of the broker's by at least {lead} ms"
            )
    if any(row["hour_source"] == "store_time" for row in (*sends, *attempts)):
        yield Doubt(
            "suspect_time",
            "some records have no time by the client's clock, or a suspect one; the store time of their trace message is shown",
        )


def _copies(sends: list[Row], attempts: list[Row], deliveries: list[Row]) -> Iterator[Doubt]:
    copies = sum(send["copies"] - 1 for send in sends)
    copies += sum(max(a["begin_copies"] - 1, 0) + max(a["end_copies"] - 1, 0) for a in attempts)
    if copies:
        yield Doubt(
            "duplicate",
            f"the broker stored records of it more than once: {copies} extra copies are not counted",
        )
    by_topic: dict[str | None, int] = {}
    for send in sends:
        by_topic[send["topic"]] = by_topic.get(send["topic"], 0) + 1
    for topic, count in by_topic.items():
        if count > 1:
            yield Doubt(
                "duplicate",
                f"it was sent {count} times to {topic}: the producer retried, or used the id again",
            )
    for delivery in deliveries:
        if delivery["duplicates"]:
            yield Doubt(
                "duplicate",
                f"group {delivery['consumer_group']} was called {delivery['duplicates']} times more than redeliveries explain",
            )


def _invalid(
    reader: Reader, cluster: str, hours: list[datetime], sends: list[Row], attempts: list[Row]
) -> Iterator[Doubt]:
    hosts = {host_of(row["client"]) for row in (*sends, *attempts) if row["client"]}
    rows = reader.rows("marts.invalid_records", hours, "cluster = $cluster", cluster=cluster)
    for row in rows:
        if row["client"] and host_of(row["client"]) in hosts:
            yield Doubt(
                "invalid",
                f"{row['records']} records of {row['client']} in the hour of {_second(row['hour'])} could not be decoded "
                f"({row['reason']}); records of this message may be among them",
            )


def host_of(client: str) -> str:
    """The host of a client, `ip@pid` or `ip:port`, as the macro client_host of dbt has it."""
    host = client.split("@")[0] if "@" in client else client.rsplit(":", 1)[0]
    return host.strip("[]")


def _second(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
