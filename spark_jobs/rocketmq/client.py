"""A client that reads from a RocketMQ cluster: offsets and exact ranges of messages. Routes: `cluster_connections.py`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.cluster_connections import MASTER_ID, ClusterConnections
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.errors import (
    OffsetMovedError,
    QueueLocation,
    RequestTimeoutError,
    RocketMQError,
    ShortRangeError,
)
from spark_jobs.rocketmq.message import (
    MAX_INFLATED_BYTES,
    Message,
    inflated,
    malformed,
    scan_until_malformed,
)
from spark_jobs.rocketmq.reading import RangeReader
from spark_jobs.rocketmq.route import MessageQueue


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets [min_offset, max_offset) that one broker has of a queue.

    Attributes:
        min_offset: the first offset that has not expired.
        max_offset: the offset that the next message will get.
        from_master: the master responded. A slave may lag behind it, so its max offset may not be the queue's end.
    """

    min_offset: int
    max_offset: int
    from_master: bool = True

    def unread(self, committed: int) -> range:
        """The offsets of the messages from the committed offset on; what has expired is not among them.

        A queue whose max offset (of its master) is before the committed offset was recreated: all its messages count.
        """
        if self.max_offset < committed and self.from_master:
            committed = 0
        start = max(committed, self.min_offset)
        return range(start, max(start, self.max_offset))


@dataclass(frozen=True, slots=True)
class Pulled:
    """The response to a pull: the messages, and the broker's offsets [min_offset, max_offset)."""

    messages: list[Message]
    min_offset: int
    max_offset: int


@dataclass(eq=False, repr=False)
class Client(ClusterConnections):
    """Reads topics of one cluster. A context manager; not thread-safe.

    Every call goes to the master or, if it cannot be reached, to a slave. After a lost connection the call is retried
    with a back-off and a fresh route, up to `attempts` times in all.

    Attributes:
        pulls_in_flight: number of pulls that `read` keeps in flight.
        max_inflated_bytes: a body that inflates to more is returned as stored, with `body_error`.
        consumer_group: the group in the pull requests. The default exists on every broker.

    Raises:
        ValueError: an argument is invalid.
        OSError: a TLS file cannot be read.
    """

    pulls_in_flight: int = 64
    max_inflated_bytes: int = MAX_INFLATED_BYTES
    consumer_group: str = requests.TOOLS_CONSUMER

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        if self.pulls_in_flight < 1:
            raise ValueError("at least one pull in flight is needed")

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the broker still has; raises the same errors as `pull`."""
        return self._offset(
            queue, requests.GET_MIN_OFFSET, requests.queue_offset(queue.topic, queue.queue_id)
        )

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get; raises the same errors as `pull`."""
        return self._offset(
            queue, requests.GET_MAX_OFFSET, requests.queue_offset(queue.topic, queue.queue_id)
        )

    def bounds(self, queue: MessageQueue) -> Bounds:
        """Min offset and max offset from the same broker; raises the same errors as `pull`."""

        def request(connection: Connection, location: QueueLocation) -> tuple[int, int]:
            # The min offset first: offsets only rise, so it is never above a max offset that is requested later.
            fields = requests.queue_offset(queue.topic, queue.queue_id)
            low = _request_offset(connection, location, requests.GET_MIN_OFFSET, fields)
            return low, max(low, _request_offset(connection, location, requests.GET_MAX_OFFSET, fields))

        (low, high), broker_id = self.call_broker(queue, request)
        return Bounds(low, high, broker_id == MASTER_ID)

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after a time (ms, broker's clock), or the max offset.

        Raises the same errors as `pull`.
        """
        fields = requests.offset_by_time(queue.topic, queue.queue_id, timestamp_ms)
        found = self._offset(queue, requests.SEARCH_OFFSET_BY_TIMESTAMP, fields)
        # A broker before 5.0 returns the nearest message, which may be the one before or after it.
        while (message := self.message_at(queue, found)) and message.store_time < timestamp_ms:
            found += 1
        while (
            found > 0
            and (message := self.message_at(queue, found - 1))
            and message.store_time >= timestamp_ms
        ):
            found -= 1
        return found

    def pull(self, queue: MessageQueue, offset: int, max_messages: int = 32) -> Pulled:
        """Pull once: messages from `offset` on, possibly fewer than requested; none at the end of the queue.

        A malformed message is returned as in `read`: its body is its bytes, `body_error` is the reason.

        Raises:
            OffsetMovedError: the broker has other offsets.
            ConnectionLostError: the broker cannot be reached in `attempts` attempts.
            TopicNotFoundError, QueueNotFoundError, AccessDeniedError, BrokerError: the broker rejects the request.
        """

        def request(connection: Connection, location: QueueLocation) -> Pulled:
            for count in (max_messages, 1):  # a malformed message is pulled alone, to get its bytes
                fields = requests.pull(queue.topic, queue.queue_id, offset, count, self.consumer_group)
                frame = connection.call(requests.PULL_MESSAGE, fields)
                if requests.is_reset(frame, offset):
                    frame = connection.call(requests.PULL_MESSAGE, fields)
                if frame.code not in requests.PULL_RESPONSES:
                    raise requests.failure(frame, location, f"pull of {count} messages at offset {offset}")
                stored = frame.body if frame.code == requests.SUCCESS else b""
                messages, error = scan_until_malformed(stored, self.max_inflated_bytes, offset)
                if messages or not error:
                    break
            else:
                messages = [malformed(stored, queue.queue_id, offset, error)]
            low, high = (requests.number(frame, name, location) for name in ("minOffset", "maxOffset"))
            return Pulled([inflated(message, self.max_inflated_bytes) for message in messages], low, high)

        return self.call_broker(queue, request)[0]

    def message_at(self, queue: MessageQueue, offset: int) -> Message | None:
        """The message at an offset; None if the broker has none there (expired, or not written yet).

        Raises:
            ShortRangeError: the offset is within the broker's bounds, but no message is returned.
            RocketMQError: as `pull`.
        """
        for attempt in range(self.attempts):
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
            f"{self.location(queue)}: the broker reports the offsets [{pulled.min_offset}, {pulled.max_offset}) but "
            f"returned no message at offset {offset}: check its store for lost or damaged files",
            offset,
        )

    def read(self, queue: MessageQueue, start: int, end: int) -> Iterator[list[Message]]:
        """Yield every message of [start, end) exactly once, in order, in lists of bounded size.

        Several pulls are in flight on a separate connection. After a lost connection, reading resumes on a new one (to
        a slave, if the master is down) after the last list that was yielded. A body with a wrong CRC is read again over
        a new connection before it is returned with `body_error`.

        Raises:
            OffsetMovedError: part of the range has expired or was never written.
            ShortRangeError: the broker does not return all of it.
            RocketMQError: as `pull`.
        """
        position, failures, depth = start, 0, self.pulls_in_flight
        while position < end:
            connection: Connection | None = None
            broker_id = MASTER_ID
            try:
                connection, broker_id = self._open(queue, failures, self.connect)
                reader = self._reader(connection, queue, position, end, depth)
                for batch in reader.batches():
                    yield [
                        message if message.body_error is None else self._reread_if_corrupt(queue, message)
                        for message in batch
                    ]
                    position, failures = reader.position, 0
            except RocketMQError as error:
                failures += 1
                if isinstance(error, RequestTimeoutError):
                    depth = max(1, depth // 4)  # a broker may drop pulls that its network cannot carry
                note = f"reading [{start}, {end}) ended before {position}"
                queue = self._before_retry(error, queue, broker_id, failures, note)
            finally:
                if connection is not None:
                    connection.close()

    def _reread_if_corrupt(self, queue: MessageQueue, message: Message) -> Message:
        """Read a message with a wrong CRC again, over new connections and from a slave if there is one."""
        if not str(message.body_error).startswith("crc:"):
            return message
        offset = message.queue_offset
        for failures in range(1, 1 + len(queue.addresses)):
            try:
                connection, _ = self._open(queue, failures, self.connect)
                with connection:
                    again = next(self._reader(connection, queue, offset, offset + 1, 1).batches())[0]
            except RocketMQError:
                continue
            if again.body_error is None or not again.body_error.startswith("crc:"):
                return again
        return message

    def _reader(
        self, connection: Connection, queue: MessageQueue, start: int, end: int, depth: int
    ) -> RangeReader:
        location = self.location(queue, connection.address)
        return RangeReader(
            connection, queue, start, end, location, self.consumer_group, depth, self.max_inflated_bytes
        )

    def _offset(self, queue: MessageQueue, code: int, fields: dict[str, str]) -> int:
        return self.call_broker(
            queue, lambda connection, location: _request_offset(connection, location, code, fields)
        )[0]


def _request_offset(
    connection: Connection, location: QueueLocation, code: int, fields: dict[str, str]
) -> int:
    frame = connection.call(code, fields)
    if frame.code != requests.SUCCESS:
        raise requests.failure(frame, location, f"offset request {code}")
    return requests.number(frame, "offset", location)
