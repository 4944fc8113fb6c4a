"""Which messages of some topics are after the committed offsets. Nothing is consumed or committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spark_jobs.rocketmq.client import Bounds
from spark_jobs.rocketmq.errors import AccessDeniedError, ConnectionLostError, RocketMQError
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.route import MessageQueue


class QueueReader(Protocol):
    """A client of either kind: of the remoting protocol, or of `librocketmq`."""

    def queues(self, topic: str) -> list[MessageQueue]: ...

    def bounds(self, queue: MessageQueue) -> Bounds: ...

    def message_at(self, queue: MessageQueue, offset: int) -> Message | None: ...


@dataclass(frozen=True)
class Unread:
    """What the brokers that answered have.

    Attributes:
        offsets: per queue that was asked, the offsets of its unread messages; an empty range if there are none.
        from_slaves: those of them that a slave answered: they may end before the queue does.
        problems: why other queues could not be asked.
    """

    offsets: dict[MessageQueue, range] = field(default_factory=dict)
    from_slaves: set[MessageQueue] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def unread(client: QueueReader, topics: Iterable[str], committed: Callable[[MessageQueue], int]) -> Unread:
    """Ask each queue once; a broker that cannot be asked hides nothing of the others.

    Args:
        client: with few `attempts` and a short `timeout`, as nothing is retried here either.
        topics: their names on the brokers.
        committed: the offset that is read next of a queue. It may raise `RocketMQError`.
    """
    found = Unread()
    given_up: set[tuple[str, str]] = set()  # topic and broker
    for topic in topics:
        try:
            queues = client.queues(topic)
        except RocketMQError as error:
            found.problems.append(str(error))
            if isinstance(error, ConnectionLostError):  # no nameserver answers
                break
            continue
        for queue in queues:
            if {(topic, queue.broker), ("", queue.broker)} & given_up:
                continue
            try:
                position, bounds = committed(queue), client.bounds(queue)
            except RocketMQError as error:
                found.problems.append(str(error))
                if isinstance(error, ConnectionLostError):
                    given_up.add(("", queue.broker))
                elif isinstance(error, AccessDeniedError):
                    given_up.add((topic, queue.broker))
                continue
            found.offsets[queue] = bounds.unread(position)
            if not bounds.from_master:
                found.from_slaves.add(queue)
    return found


def stored_at(
    client: QueueReader, offsets: Mapping[MessageQueue, int]
) -> tuple[dict[MessageQueue, int | None], list[str]]:
    """The store time, ms, of the message at an offset of each queue, None if there is none, and why queues cannot be read."""
    found: dict[MessageQueue, int | None] = {}
    problems = []
    for queue, offset in offsets.items():
        try:
            message = client.message_at(queue, offset)
        except RocketMQError as error:
            problems.append(str(error))
        else:
            found[queue] = message.store_time if message else None
    return found, problems
