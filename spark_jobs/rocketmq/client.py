"""A reading client of a RocketMQ cluster: routes, offsets and exact ranges of messages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.brokers import MASTER_ID, Access, Brokers, final
from spark_jobs.rocketmq.connection import Connection, Tls
from spark_jobs.rocketmq.errors import (
    OffsetMovedError,
    QueueLocation,
    RequestTimeoutError,
    RocketMQError,
    ShortRangeError,
)
from spark_jobs.rocketmq.message import MAX_INFLATED_BYTES, Message
from spark_jobs.rocketmq.pulling import Pull, Pulled
from spark_jobs.rocketmq.reading import RangeRead
from spark_jobs.rocketmq.route import Queue


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one broker has of a queue: the offsets [min_offset, max_offset).

    Attributes:
        min_offset: the first offset that it still has.
        max_offset: the offset that the next message will get.
        from_master: the master said so. A slave may lag behind it: its max is no proof of the queue's end.
    """

    min_offset: int
    max_offset: int
    from_master: bool = True


class Client:
    """Reads topics of one cluster. A context manager; not for several threads at once.

    Every call asks the broker's master and, where that cannot be reached, its slaves; after a lost connection it
    asks again, with a pause and a fresh route, `attempts` times in all.
    """

    def __init__(
        self,
        namesrv: Sequence[str],
        cluster: str = "",
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        *,
        timeout: float = 10.0,
        connect_timeout: float = 3.0,
        attempts: int = 4,
        pulls_in_flight: int = 64,
        max_inflated_bytes: int = MAX_INFLATED_BYTES,
        consumer_group: str = requests.TOOLS_CONSUMER,
    ) -> None:
        """Nothing is asked yet.

        Args:
            namesrv: nameservers, each `host:port`.
            cluster: the cluster's name, for messages only.
            credentials: sign requests with these.
            tls: speak TLS; None: plain.
            timeout: seconds to wait for an answer.
            connect_timeout: seconds to wait for a connection.
            attempts: how often a call is made in all while connections get lost.
            pulls_in_flight: how many pulls `read` keeps on the way.
            max_inflated_bytes: a body that inflates to more is left as it is stored, with `body_error`.
            consumer_group: the group that pulls name. The default exists on every broker.

        Raises:
            ValueError: an argument makes no sense.
            OSError: a TLS file cannot be read.
        """
        if pulls_in_flight < 1:
            raise ValueError("at least one pull in flight is needed")
        access = Access(tuple(namesrv), cluster, credentials, tls, timeout, connect_timeout, attempts)
        self._brokers = Brokers(access)
        self._attempts = attempts
        self._pulls_in_flight = pulls_in_flight
        self._max_inflated_bytes = max_inflated_bytes
        self._group = consumer_group

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The client can be used again after it."""
        self._brokers.close()

    def queues(self, topic: str) -> list[Queue]:
        """The topic's queues by broker and id: the union of what every nameserver that answers knows.

        Raises:
            NoBrokersError: no nameserver that answers knows any broker: all are down.
            TopicNotFoundError: no nameserver that answers knows the topic.
            UnreachableError: no nameserver answers.
            RocketMQError: a nameserver refuses, or answers nonsense.
        """
        return self._brokers.queues(topic)

    def registered_brokers(self) -> set[str]:
        """The names of the brokers that the nameservers know, of any topic; raises RocketMQError."""
        return self._brokers.registered()

    def min_offset(self, queue: Queue) -> int:
        """The first offset that the broker still has; errors as of `pull`."""
        return self._offset(queue, requests.GET_MIN_OFFSET, requests.offset_of(queue.topic, queue.queue_id))

    def max_offset(self, queue: Queue) -> int:
        """The offset that the next message will get; errors as of `pull`."""
        return self._offset(queue, requests.GET_MAX_OFFSET, requests.offset_of(queue.topic, queue.queue_id))

    def bounds(self, queue: Queue) -> Bounds:
        """Both offsets from one and the same broker; errors as of `pull`."""

        def once(connection: Connection, place: QueueLocation) -> tuple[int, int]:
            # Min first: it only rises, so it is never above a max that was asked for later.
            fields = requests.offset_of(queue.topic, queue.queue_id)
            low = _offset(connection, place, requests.GET_MIN_OFFSET, fields)
            return low, max(low, _offset(connection, place, requests.GET_MAX_OFFSET, fields))

        (low, high), broker_id = self._brokers.ask(queue, once)
        return Bounds(low, high, broker_id == MASTER_ID)

    def offset_at(self, queue: Queue, timestamp_ms: int) -> int:
        """The first offset stored at or after a time (broker's clock), or the max offset; errors as of `pull`."""
        fields = requests.offset_by_time(queue.topic, queue.queue_id, timestamp_ms)
        return self._offset(queue, requests.SEARCH_OFFSET_BY_TIMESTAMP, fields)

    def pull(self, queue: Queue, offset: int, max_messages: int = 32) -> Pulled:
        """One pull: messages from `offset` on, maybe fewer than asked for; none at the end of the queue.

        A message that cannot be taken apart comes as `read` gives it: its bytes are its body, `body_error` says why.

        Raises:
            OffsetMovedError: the broker has other offsets.
            ConnectionLostError: the broker cannot be asked, `attempts` times.
            TopicNotFoundError, QueueNotFoundError, AccessDeniedError, BrokerError: the broker refuses.
        """
        asked = Pull(queue, offset, max_messages, self._group, self._max_inflated_bytes)
        return self._brokers.ask(queue, asked.answer)[0]

    def message_at(self, queue: Queue, offset: int) -> Message | None:
        """The message at an offset; None if the broker has none there (expired, or not written yet).

        Raises:
            ShortRangeError: the broker says that it has the offset, and gives nothing.
            RocketMQError: as of `pull`.
        """
        for attempt in range(self._attempts):
            try:
                pulled = self.pull(queue, offset, 1)
            except OffsetMovedError:
                return None
            if pulled.messages and pulled.messages[0].queue_offset == offset:
                return pulled.messages[0]
            if not pulled.min_offset <= offset < pulled.max_offset:
                return None
            time.sleep(0.05 * attempt)
        raise ShortRangeError(
            f"{self._brokers.place(queue)}: the broker says that it has [{pulled.min_offset}, {pulled.max_offset}) and "
            f"gives no message at {offset}: look for lost or damaged files in its store",
            offset,
        )

    def read(self, queue: Queue, start: int, end: int) -> Iterator[list[Message]]:
        """Every message of [start, end), once, in order, in lists of bounded size.

        Several pulls are in flight on a connection of this call's own. A lost connection is made anew (at a
        slave, if the master is away) and the reading goes on behind the last list that was yielded. A body
        whose CRC is wrong is read again over a new connection before it is given out with `body_error`.

        Raises:
            OffsetMovedError: part of the range has expired, or never was.
            ShortRangeError: the broker does not give all of it.
            RocketMQError: as of `pull`.
        """
        position, failures, depth = start, 0, self._pulls_in_flight
        while position < end:
            connection: Connection | None = None
            broker_id = MASTER_ID
            try:
                connection, broker_id = self._brokers.open(queue, failures)
                reading = self._reading(connection, queue, position, end, depth)
                for batch in reading.batches():
                    yield [
                        message if message.body_error is None else self._second_look(queue, message)
                        for message in batch
                    ]
                    position, failures = reading.position, 0
            except RocketMQError as error:
                failures += 1
                if final(error, broker_id) or failures >= self._attempts:
                    text = f"{self._brokers.placed(queue, error)} (reading [{start}, {end}) ended before {position})"
                    error.args = (text, *error.args[1:])
                    raise
                if isinstance(
                    error, RequestTimeoutError
                ):  # a broker may drop pulls that its network cannot take
                    depth = max(1, depth // 4)
                queue = self._brokers.pause(queue, failures)
            finally:
                if connection is not None:
                    connection.close()

    def _second_look(self, queue: Queue, message: Message) -> Message:
        """A message whose CRC is wrong, as a slave, if there is one, and new connections give it."""
        if not str(message.body_error).startswith("crc:"):
            return message
        offset = message.queue_offset
        for turn in range(1, 1 + len(queue.addresses)):
            try:
                connection, _ = self._brokers.open(queue, turn)
                with connection:
                    again = next(self._reading(connection, queue, offset, offset + 1, 1).batches())[0]
            except RocketMQError:
                continue
            if again.body_error is None or not again.body_error.startswith("crc:"):
                return again
        return message

    def _reading(self, connection: Connection, queue: Queue, start: int, end: int, depth: int) -> RangeRead:
        return RangeRead(
            *(connection, queue, start, end),
            place=self._brokers.place(queue, connection),
            group=self._group,
            depth=depth,
            max_inflated_bytes=self._max_inflated_bytes,
        )

    def _offset(self, queue: Queue, code: int, fields: dict[str, str]) -> int:
        return self._brokers.ask(queue, lambda connection, place: _offset(connection, place, code, fields))[0]


def _offset(connection: Connection, place: QueueLocation, code: int, fields: dict[str, str]) -> int:
    frame = connection.call(code, fields)
    if frame.code != requests.SUCCESS:
        raise requests.failure(frame, place, f"request {code} for an offset")
    return requests.number(frame, "offset", place)
