"""Why an identifier is unknown: what it says, and whether the traces were complete when it was made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from spark_jobs.lookup.identifiers import Identifier, Maker
from spark_jobs.lookup.reader import Reader

_TIME = "%Y-%m-%d %H:%M"


def explain_unknown(reader: Reader, text: str, cluster: str | None = None) -> list[str]:
    """Sentences about an identifier that no record has: what its text says, and whether the traces of that time are complete.

    Args:
        reader: an open serving file.
        text: the identifier.
        cluster: only this one; None for all.
    """
    identifier = Identifier.of(text)
    return [*_says(identifier), *_traces(reader, identifier, cluster)]


def _says(identifier: Identifier) -> Iterator[str]:
    if identifier.maker is Maker.CLIENT:
        yield (
            f"By its form it is the message id of a client: process {identifier.process_id} on {identifier.host}, made "
            f"{_since(identifier.since_month)} after the start of a month in the client's time zone."
        )
    elif identifier.maker is Maker.BROKER:
        yield (
            f"By its form it is the id that broker {identifier.host} gave to a message. Such an id contains no time, and "
            "consumers' records do not have it: without the record of the send it cannot be found."
        )
    elif identifier.maker is Maker.GRPC:
        yield (
            f"By its form it is the message id of a gRPC client, made at {identifier.made_at:{_TIME}} UTC. gRPC clients write "
            "no traces."
        )
    else:
        yield "It has the form of no generated message id. Keys, and ids that an application sets, contain no time."


def _traces(reader: Reader, identifier: Identifier, cluster: str | None) -> Iterator[str]:
    for name in [cluster] if cluster else reader.watermarks:
        watermark = reader.watermarks.get(name)
        first = _history_from(reader, name) if watermark else None
        if watermark is None or first is None:
            yield f"Cluster {name}: there are no traces yet, or it is not known up to when they are complete."
            continue
        yield f"Cluster {name}: the warehouse has traces from {first:{_TIME}} UTC, complete up to {watermark:{_TIME}} UTC."
        ranges = identifier.made_between(first - timedelta(days=31), watermark + timedelta(days=1))
        for start, end in ranges:
            found = _completeness(reader, name, first, watermark, start, end)
            yield f"Made from {start:{_TIME}} to {end:{_TIME}} UTC: {found}."


def _completeness(
    reader: Reader, cluster: str, first: datetime, watermark: datetime, start: datetime, end: datetime
) -> str:
    if end < first:
        return "before the history of the traces"
    if start > watermark:
        return "after the watermark: the traces are not read yet"
    gaps = reader.query(
        "select count(*) as gaps from ops.ingest_gaps where cluster = $cluster "
        "and (from_time is null or from_time <= $end) and to_time >= $start",
        cluster=cluster,
        start=start,
        end=end,
    )[0]["gaps"]
    if gaps:
        return f"{gaps} ingest gaps: the broker deleted trace messages before they were read"
    if start < first or end > watermark:
        return "the traces are complete for a part of this time"
    return "the traces are complete; a message of that time was not traced, or its records were dropped by the client"


def _history_from(reader: Reader, cluster: str) -> datetime | None:
    rows = reader.query(
        "select min(first_seen_at) as first from (select cluster, first_seen_at from marts.dim_topics "
        "union all select cluster, first_seen_at from marts.dim_consumer_groups) where cluster = $cluster",
        cluster=cluster,
    )
    first: datetime | None = rows[0]["first"]
    return first


def _since(since_month: timedelta | None) -> str:
    assert since_month is not None
    hours, seconds = divmod(int(since_month.total_seconds()) % 86400, 3600)
    return f"{since_month.days} days {hours:02}:{seconds // 60:02}:{seconds % 60:02}"
