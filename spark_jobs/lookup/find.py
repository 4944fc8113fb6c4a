"""Find the messages of an identifier or key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from spark_jobs.lookup.reader import Reader, Row

LIMIT = 100
"""Messages that are listed; the number of all is given beside them."""

_BY_ID = "(msg_id = $text or offset_msg_id = $text)"
_BY_TRANSACTION = "record_type = 'EndTransaction' and transaction_id = $text"
_BY_KEY = "(contains(keys, $text) and list_contains(string_split(keys, ' '), $text))"


@dataclass(frozen=True)
class Match:
    """A message that was found.

    Attributes:
        cluster: RocketMQ cluster.
        msg_id: message id.
        topic: of its newest send; None if no send of it is known.
        at: its newest send, else its newest attempt, UTC.
    """

    cluster: str
    msg_id: str
    topic: str | None
    at: datetime


@dataclass(frozen=True)
class Found:
    """Messages, newest first, at most `LIMIT`, and the number of all."""

    matches: tuple[Match, ...]
    total: int


@dataclass(frozen=True)
class Nothing:
    """An identifier or key that no record has, and sentences about it (`explain_unknown`)."""

    unknown: str
    explanation: tuple[str, ...]


def find_id(reader: Reader, identifier: str, cluster: str | None = None) -> Found:
    """The messages with this message id, broker's id or transaction id; of all clusters if none is given."""
    return _find(reader, identifier, cluster, _BY_ID, "msg_id = $text", _BY_TRANSACTION)


def find_key(reader: Reader, key: str, cluster: str | None = None) -> Found:
    """The messages that have this key among their keys; of all clusters if none is given."""
    return _find(reader, key, cluster, _BY_KEY, _BY_KEY, _BY_KEY)


def _find(
    reader: Reader, text: str, cluster: str | None, of_send: str, of_attempt: str, of_record: str
) -> Found:
    found: list[Row] = []
    total = 0
    for name in [cluster] if cluster else reader.watermarks:
        hours = reader.hours(name, text)
        if not hours:
            continue
        rows = _messages(reader, name, hours, text, of_send, of_attempt) or _in_events(
            reader, name, hours, text, of_record
        )
        found += rows
        total += rows[0]["total"] if rows else 0
    found.sort(key=lambda row: row["seen_at"], reverse=True)
    matches = tuple(Match(r["cluster"], r["msg_id"], r["topic"], r["seen_at"]) for r in found[:LIMIT])
    return Found(matches, total)


def _messages(
    reader: Reader, cluster: str, hours: list[datetime], text: str, of_send: str, of_attempt: str
) -> list[Row]:
    sends, files_of_sends = reader.source("marts.fct_sends", hours)
    attempts, files_of_attempts = reader.source("marts.fct_consume_attempts", hours)
    return reader.query(
        f"""
        with found as (
          select msg_id, topic, sent_at as seen_at from {sends}
          where cluster = $cluster and msg_id is not null and topic_kind = 'normal' and {of_send}
          union all
          select msg_id, topic, occurred_at from {attempts}
          where cluster = $cluster and msg_id is not null and {of_attempt}
        )
        select $cluster as cluster, msg_id, max(topic) as topic, max(seen_at) as seen_at, count(*) over () as total
        from found group by msg_id order by seen_at desc limit {LIMIT}
        """,
        text=text,
        cluster=cluster,
        **files_of_sends,
        **files_of_attempts,
    )


def _in_events(reader: Reader, cluster: str, hours: list[datetime], text: str, of_record: str) -> list[Row]:
    """Messages by their records: the facts have no transaction id, nor a key that only the SubAfter of a later hour has."""
    rows = reader.rows(
        "events.trace_records", hours, f"cluster = $cluster and {of_record}", cluster=cluster, text=text
    )
    rows.sort(key=lambda row: row["store_time"])
    newest = {msg_id: row for row in rows for msg_id in (row["msg_id"] or "").split(",") if msg_id}
    return [
        {
            "cluster": cluster,
            "msg_id": msg_id,
            "topic": row["topic"],
            "seen_at": row["store_time"],
            "total": len(newest),
        }
        for msg_id, row in newest.items()
    ]
