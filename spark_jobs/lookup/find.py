"""Find the messages of an identifier or key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from spark_jobs.lookup.identifiers import spellings
from spark_jobs.lookup.reader import Reader, Row, Source

LIMIT = 100
"""Messages that are listed; the number of all is given beside them."""

_BY_ID = "(msg_id = $text or offset_msg_id = $text)"
_BY_TRANSACTION = "record_type in ('EndTransaction', 'Recall') and $text in (transaction_id, msg_id)"
_BY_KEY = "(contains(keys, $text) and list_contains(string_split(keys, ' '), $text))"
# As the macro consumer_keys of dbt has it.
_BY_KEY_OF_RECORD = (
    f"record_type != 'Invalid' and {_BY_KEY} and keys != 'null' "
    "and not (keys = 'dKey' and coalesce(layout, '') in ('sub_before_8', 'sub_after_6'))"
)


@dataclass(frozen=True)
class Match:
    """A message that was found.

    Attributes:
        cluster: RocketMQ cluster.
        msg_id: message id.
        topic: of the newest record of it that was found and whose topic is known; None if there is none.
        at: time of the newest record of it that was found, UTC.
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
    """The messages with this message id, broker's id or transaction id; of all clusters if none is given.

    Hex digits in another case than the clients write are found too, unless there is an id in the case that is given.
    """
    for text in spellings(identifier):
        found: list[Row] = []
        for name, hours in _hours(reader, text, cluster):
            in_facts = _facts(reader, hours, _BY_ID, "msg_id = $text")
            found += _newest(reader, name, text, in_facts) or _newest(
                reader, name, text, _events(reader, hours, _BY_TRANSACTION)
            )
        if found:
            break
    return _found(found)


def find_key(reader: Reader, key: str, cluster: str | None = None) -> Found:
    """The messages that have this key among their keys; of all clusters if none is given."""
    found: list[Row] = []
    for name, hours in _hours(reader, key, cluster):
        found += _newest(reader, name, key, _with_key(reader, hours))
    return _found(found)


def messages_with_key(
    reader: Reader, key: str, cluster: str | None = None
) -> tuple[list[Row], list[datetime]]:
    """The cluster and message id of all messages that have this key, and the hours of the key."""
    found: list[Row] = []
    of_key: list[datetime] = []
    for name, hours in _hours(reader, key, cluster):
        source, parameters = _with_key(reader, hours)
        found += reader.query(
            f"select distinct $cluster as cluster, msg_id from ({source})",
            cluster=name,
            text=key,
            **parameters,
        )
        of_key += hours
    return found, of_key


def _hours(reader: Reader, text: str, cluster: str | None) -> Iterator[tuple[str, list[datetime]]]:
    for name in [cluster] if cluster else reader.watermarks:
        if hours := reader.hours(name, text):
            yield name, hours


def _with_key(reader: Reader, hours: list[datetime]) -> Source:
    """Of events too: the facts have an attempt in its first hour, and its SubAfter of a later hour may alone have the key."""
    facts, of_facts = _facts(reader, hours, _BY_KEY, _BY_KEY)
    events, of_events = _events(reader, hours, _BY_KEY_OF_RECORD)
    return f"{facts} union all {events}", of_facts | of_events


def _facts(reader: Reader, hours: list[datetime], of_send: str, of_attempt: str) -> Source:
    sends, files_of_sends = reader.source("marts.fct_sends", hours)
    attempts, files_of_attempts = reader.source("marts.fct_consume_attempts", hours)
    sql = f"""
        select msg_id, topic, sent_at as seen_at from {sends}
        where cluster = $cluster and msg_id is not null and {of_send}
        union all
        select msg_id, topic, occurred_at from {attempts}
        where cluster = $cluster and msg_id is not null and {of_attempt}"""
    return sql, files_of_sends | files_of_attempts


def _events(reader: Reader, hours: list[datetime], of_record: str) -> Source:
    """Messages by their records. Ids and topics are those of the macros named_msg_ids and without_prefixes of dbt."""
    events, parameters = reader.events(hours)
    sql = f"""
        select msg_id, topic, seen_at from (
          select
            unnest(case
              when record_type = 'Pub' then string_split(
                coalesce(nullif(nullif(msg_id, 'null'), ''), nullif(nullif(offset_msg_id, 'null'), '')), ','
              )
              else [nullif(msg_id, 'null')]
            end) as msg_id,
            regexp_replace(nullif(nullif(topic, 'null'), ''), '^(%RETRY%|%DLQ%)?([^%]+%)?', '') as topic,
            store_time as seen_at
          from {events}
          where cluster = $cluster and {of_record}
        )
        where msg_id != ''"""
    return sql, parameters


def _newest(reader: Reader, cluster: str, text: str, source: Source) -> list[Row]:
    sql, parameters = source
    return reader.query(
        f"""
        select $cluster as cluster, msg_id, arg_max(topic, seen_at) as topic, max(seen_at) as seen_at,
          count(*) over () as total
        from ({sql}) group by msg_id order by seen_at desc, msg_id limit {LIMIT}
        """,
        text=text,
        cluster=cluster,
        **parameters,
    )


def _found(rows: list[Row]) -> Found:
    rows.sort(key=lambda row: row["seen_at"], reverse=True)
    matches = tuple(Match(r["cluster"], r["msg_id"], r["topic"], r["seen_at"]) for r in rows[:LIMIT])
    # Each row has the number of messages of its cluster.
    return Found(matches, sum({row["cluster"]: row["total"] for row in rows}.values()))
