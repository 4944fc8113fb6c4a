"""The tables of facts: which rows the answers of a broker make, what identifies them, which changes count, and when they end.

`observations` is not one of them: it has a row per collection, which never ends.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import xxhash

from spark_jobs.broker_facts import parse
from spark_jobs.broker_facts.answers import Answers
from spark_jobs.lake.tables import (
    BROKERS,
    CLIENT_HOSTS,
    CONSUMERS,
    GROUP_OFFSETS,
    GROUPS,
    PRODUCERS,
    SUBSCRIPTIONS,
    TOPIC_OFFSETS,
    TOPICS,
    Table,
)

Row = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class FactTable:
    """What the rows of a table are, how they are identified and compared, and when they end.

    Attributes:
        table: the table.
        key: the columns that identify a fact within a cluster; the first is `broker`.
        rows: the facts in the answers of a broker, without the column `broker`; at most one per key.
        is_gone: whether a key that is in no row is known to be gone, by the answers of its broker.
        compared: the values of a row whose change counts, as bytes or as JSON has them.
        jumped: for offsets, whether a new row must be added at once; other tables have None: they always add it.
        gone_if_unregistered: whether a row ends when no nameserver knows its broker.
    """

    table: Table
    key: tuple[str, ...]
    rows: Callable[[Answers], Iterable[Row]]
    is_gone: Callable[[Answers, Key], bool]
    compared: Callable[[Row], Any]
    jumped: Callable[[Row, Row, int], bool] | None = None
    gone_if_unregistered: bool = False

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def digest(self, row: Row) -> str:
        """A hash of the compared values, 16 hexadecimal digits."""
        values = self.compared(row)
        text = values if isinstance(values, bytes) else json.dumps(values, separators=(",", ":")).encode()
        return xxhash.xxh3_64_hexdigest(text)


def _values(table: Table, *without: str) -> Callable[[Row], Any]:
    """All columns of the table that describe the fact, except some."""
    ends = {"cluster", "digest", "valid_from", "valid_to", "run_id", *without}
    names = [name for name in table.column_names if name not in ends]
    return lambda row: [row[name] for name in names]


def _offsets(name: str) -> Callable[[Row], bytes]:
    """The ids and one offset of all queues, as bytes: there are a hundred thousand of them."""

    def compared(row: Row) -> bytes:
        numbers = array("q")
        for queue in row["queues"]:
            numbers.append(queue["queue_id"])
            numbers.append(queue[name])
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tobytes()

    return compared


def _offsets_jumped(before: Row, after: Row, jump_messages: int) -> bool:
    """Whether a queue was added or removed, or its offset went back, over many messages, or beyond what was pulled.

    A consumer that keeps up moves its offset as far as the broker's moves; a backlog shrinks because a group catches up,
    or because its offset was set over messages. These were not pulled.
    """
    old = {queue["queue_id"]: queue for queue in before["queues"]}
    new = {queue["queue_id"]: queue for queue in after["queues"]}
    return old.keys() != new.keys() or any(
        new[queue_id]["consumer_offset"] < queue["consumer_offset"]
        or _backlog(queue) - _backlog(new[queue_id]) > jump_messages
        or is_beyond_pulled(new[queue_id])
        for queue_id, queue in old.items()
    )


def _backlog(queue: Row) -> int:
    """Messages that are not consumed; 0 if the broker's offset is unknown."""
    return 0 if queue["broker_offset"] is None else queue["broker_offset"] - queue["consumer_offset"]


def is_beyond_pulled(queue: Row) -> bool:
    """Whether the offset of a queue in a row of `group_offsets` was set; false if the pull offset is unknown."""
    return queue["pull_offset"] is not None and queue["pull_offset"] < queue["consumer_offset"]


def _ends_jumped(before: Row, after: Row, _: int) -> bool:
    """Whether a queue was added or removed, or its end went back: the topic was recreated."""
    old = {queue["queue_id"]: queue["max_offset"] for queue in before["queues"]}
    new = {queue["queue_id"]: queue["max_offset"] for queue in after["queues"]}
    return old.keys() != new.keys() or any(new[queue_id] < end for queue_id, end in old.items())


def _broker_rows(answers: Answers) -> list[Row]:
    if answers.version is None or answers.config is None:
        return []
    return [{"version": parse.release(answers.version), **vars(answers.config)}]


def _topic_rows(answers: Answers) -> Iterable[Row]:
    return map(vars, (answers.topics or {}).values())


def _group_rows(answers: Answers) -> Iterable[Row]:
    return map(vars, (answers.groups or {}).values())


def _topic_offset_rows(answers: Answers) -> list[Row]:
    return [
        {"topic": topic, "queues": [vars(queue) for queue in queues]}
        for topic, queues in sorted(answers.queues.items())
    ]


def _consumer_rows(answers: Answers) -> list[Row]:
    return [
        {
            "group_name": group,
            "online": connection is not None,
            "consume_type": connection and connection.consume_type,
            "message_model": connection and connection.message_model,
            "consume_from": connection and connection.consume_from,
            **vars(connection.clients if connection else parse.Clients()),
        }
        for group, connection in sorted(answers.consumers.items())
        if connection is not None or _is_known(answers, group)
    ]


def _subscription_rows(answers: Answers) -> list[Row]:
    return [
        {"group_name": group, **vars(subscription)}
        for group, connection in sorted(answers.consumers.items())
        if connection is not None
        for subscription in connection.subscriptions
    ]


def _group_offset_rows(answers: Answers) -> list[Row]:
    """Consumer offsets beside the broker's; these were asked for later, so a queue with equal ones is consumed."""
    ends = {(topic, queue.queue_id): queue for topic, queues in answers.queues.items() for queue in queues}
    rows = []
    for (group, topic), queues in sorted((answers.offsets or {}).items()):
        listed, pulled = [], answers.pull_offsets.get((group, topic), {})
        for queue_id, offset in queues.items():
            end = ends.get((topic, queue_id))
            listed.append(
                {
                    "queue_id": queue_id,
                    "consumer_offset": offset,
                    "broker_offset": end and end.max_offset,
                    "last_consumed_at": end.last_stored_at if end and end.max_offset == offset else None,
                    "pull_offset": pulled.get(queue_id),
                }
            )
        rows.append({"group_name": group, "topic": topic, "queues": listed})
    return rows


def _producer_rows(answers: Answers) -> list[Row]:
    return [
        {
            "group_name": each.group_name,
            "trace_of": each.trace_of,
            "trace_role": each.trace_role,
            **vars(each.clients),
        }
        for each in answers.producers or []
    ]


def _client_host_rows(answers: Answers) -> list[Row]:
    consumers = [each.hosts for each in answers.consumers.values() if each is not None]
    producers = [each.hosts for each in answers.producers or []]
    return [{"host": host} for host in sorted(frozenset().union(*consumers, *producers))]


def _are_clients_known(answers: Answers, key: Key) -> bool:
    """Whether the producers, and the consumers of all groups, were answered."""
    return (
        answers.producers is not None
        and answers.groups is not None
        and answers.groups.keys() <= answers.consumers.keys()
    )


def _is_topic_gone(answers: Answers, key: Key) -> bool:
    return answers.topics is not None and key[1] not in answers.topics


def _is_group_gone(answers: Answers, key: Key) -> bool:
    return answers.groups is not None and key[1] not in answers.groups


def _is_known(answers: Answers, group: str) -> bool:
    """Whether the broker has a configuration of the group, according to its answers; a deleted group may still have offsets."""
    return not _is_group_gone(answers, (answers.broker, group))


def _is_consumer_gone(answers: Answers, key: Key) -> bool:
    """Whether the group was deleted, and no client of it is connected."""
    return _is_group_gone(answers, key) and answers.consumers.get(key[1]) is None


def _is_subscription_gone(answers: Answers, key: Key) -> bool:
    """Whether the group is online without this topic, or was deleted. While it is offline its last subscriptions stay."""
    return answers.consumers.get(key[1]) is not None or _is_consumer_gone(answers, key)


def _are_offsets_gone(answers: Answers, key: Key) -> bool:
    return answers.offsets is not None and key[1:] not in answers.offsets


FACT_TABLES = (
    FactTable(
        BROKERS,
        ("broker",),
        _broker_rows,
        lambda answers, key: False,
        _values(BROKERS),
        gone_if_unregistered=True,
    ),
    FactTable(TOPICS, ("broker", "topic"), _topic_rows, _is_topic_gone, _values(TOPICS)),
    FactTable(
        TOPIC_OFFSETS,
        ("broker", "topic"),
        _topic_offset_rows,
        _is_topic_gone,
        _offsets("max_offset"),
        _ends_jumped,
    ),
    FactTable(GROUPS, ("broker", "group_name"), _group_rows, _is_group_gone, _values(GROUPS)),
    FactTable(
        CONSUMERS,
        ("broker", "group_name"),
        _consumer_rows,
        _is_consumer_gone,
        _values(CONSUMERS),
    ),
    FactTable(
        SUBSCRIPTIONS,
        ("broker", "group_name", "topic"),
        _subscription_rows,
        _is_subscription_gone,
        _values(SUBSCRIPTIONS),
    ),
    FactTable(
        GROUP_OFFSETS,
        ("broker", "group_name", "topic"),
        _group_offset_rows,
        _are_offsets_gone,
        _offsets("consumer_offset"),
        _offsets_jumped,
    ),
    FactTable(
        PRODUCERS,
        ("broker", "group_name"),
        _producer_rows,
        lambda answers, key: answers.producers is not None,
        _values(PRODUCERS, "client_ids"),
    ),
    FactTable(CLIENT_HOSTS, ("broker", "host"), _client_host_rows, _are_clients_known, _values(CLIENT_HOSTS)),
)
