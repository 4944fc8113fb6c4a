"""What the driver asks before it plans an extraction: the state of every queue of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.route import Queue


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells one message from any other that might come to stand at its offset.

    Attributes:
        store_time: ms since 1970, the broker's clock.
        physical_offset: place in the broker's commit log, bytes.
        body_crc: CRC32 of the stored body, as the broker states it.
    """

    store_time: int
    physical_offset: int
    body_crc: int

    @classmethod
    def of(cls, message: Message) -> Fingerprint:
        """The fingerprint of a message."""
        return cls(message.store_time, message.physical_offset, message.body_crc)


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue and what its broker says of it: offsets [min_offset, max_offset), or the `error` that kept it silent.

    Where `error` is set both offsets are None: an unreachable queue is not an empty one.
    """

    queue: Queue
    min_offset: int | None = None
    max_offset: int | None = None
    error: RocketMQError | None = None


def queue_states(client: Client, topic: str) -> list[QueueState]:
    """The state of every queue of the topic, by broker and queue id; errors are per queue.

    Raises:
        RocketMQError: the route itself cannot be had (`TopicNotFound`, `Unreachable`).
    """
    return [queue_state(client, queue) for queue in client.queues(topic)]


def queue_state(client: Client, queue: Queue) -> QueueState:
    """Ask the queue's broker; an error becomes part of the state."""
    try:
        # Min first: it only rises, so it is never above a max that was asked for later.
        low = client.min_offset(queue)
        return QueueState(queue, low, max(low, client.max_offset(queue)))
    except RocketMQError as error:
        return QueueState(queue, error=error)


def fingerprint_at(client: Client, queue: Queue, offset: int) -> Fingerprint | None:
    """The fingerprint of the message at an offset; None if the broker has none there.

    Raises:
        RocketMQError: the broker could not be asked.
    """
    message = client.message_at(queue, offset)
    return None if message is None else Fingerprint.of(message)
