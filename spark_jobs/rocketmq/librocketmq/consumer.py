"""A pull consumer of the library, in the process that `server.py` runs. Statuses without a reason become errors with one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from ctypes import POINTER, byref, c_int

from .bindings import (
    FOUND,
    LOG_WARNINGS,
    NO_MATCHED_MESSAGE,
    NO_NEW_MESSAGE,
    OFFSET_ILLEGAL,
    Library,
    MessageQueue,
    PullResult,
)
from .decoding import Fields, LostError, fields_of
from .limits import NO_CODEC, UnsupportedError, UsedAfterForkError
from .log import Log

# A broker returns at most so many messages per pull from memory; more are not worth asking for.
MOST_A_PULL = 32
# The offsets of a queue come with every pull. At this offset there is no message, so nothing else comes with them.
BEYOND_EVERY_QUEUE = 2**62
_RETRIES = 8
_PAUSE_SECONDS = 0.05
_OK = 0
# The library's `GetLatestErrorMessage` after a pull that contained a body which it could not inflate.
_NOT_INFLATED = "zlib error"


class CallError(Exception):
    """A call of the library failed, with its reasons: the broker's response code (-1: none) and text of each."""

    def __init__(self, call: str, reasons: list[tuple[int, str]]) -> None:
        super().__init__(call, reasons)
        self.call, self.reasons = call, reasons


class MovedError(Exception):
    """The broker has no message at the offset; it has [min offset, max offset)."""


class ShortError(Exception):
    """The broker has the offset, and returned no message there: offset, min offset, max offset, why."""


class Consumer:
    """Pulls by queue and offset. Not thread-safe.

    Raises:
        LibraryError: as `Library`.
        CallError: the library refuses the settings.
    """

    def __init__(self, namesrv: str, group: str, credentials: tuple[str, str] | None, log: Log) -> None:
        self._pid = os.getpid()
        self._library = library = Library()
        self._log = log
        self._consumer = library.CreatePullConsumer(group.encode())
        done = [
            library.SetPullConsumerLogLevel(self._consumer, LOG_WARNINGS),
            library.SetPullConsumerNameServerAddress(self._consumer, namesrv.encode()),
        ]
        if credentials is not None:
            keys = [each.encode() for each in credentials]
            # The last argument is the channel of Alibaba Cloud, not a security token.
            done.append(library.SetPullConsumerSessionCredentials(self._consumer, *keys, b""))
        done.append(library.StartPullConsumer(self._consumer))
        if any(done):
            raise CallError(f"start (status {done})", log.failures())

    def queues(self, topic: str) -> list[tuple[str, int]]:
        """Broker and id of each readable queue in the route, sorted.

        Raises:
            CallError: there is none: the topic is unknown, or no nameserver answers.
        """
        self._check_process()
        found, count = POINTER(MessageQueue)(), c_int()
        status = self._library.FetchSubscriptionMessageQueues(
            self._consumer, topic.encode(), byref(found), byref(count)
        )
        if status != _OK or count.value < 1:
            raise CallError(f"route request (status {status})", self._log.failures())
        try:
            return sorted((found[i].broker.decode(), found[i].queue_id) for i in range(count.value))
        finally:
            self._library.ReleaseSubscriptionMessageQueue(found)

    def bounds(self, topic: str, broker: str, queue_id: int, at: int = BEYOND_EVERY_QUEUE) -> tuple[int, int]:
        """Min and max offset, from a pull at the offset `at`; raises CallError.

        For a pull at an offset that it does not have, and that is not its max offset, a broker logs a warning, and one of 4.x
        stores an event in its topic OFFSET_MOVED_EVENT, too (`PullMessageProcessor`).
        """
        queue = _queue(topic, broker, queue_id)
        try:
            _, found, _ = self._pull(queue, at, 1, 0)
        except UnsupportedError:  # the message there cannot be inflated
            _, found, _ = self._pull(queue, BEYOND_EVERY_QUEUE, 1, 0)
        return found.min_offset, found.max_offset

    def message_at(
        self, topic: str, broker: str, queue_id: int, offset: int, max_inflated_bytes: int
    ) -> Fields | None:
        """The message at an offset; None if the broker has none there. Raises as `read`."""
        queue = _queue(topic, broker, queue_id)
        for attempt in range(_RETRIES):
            messages, result, problem = self._pull(queue, offset, 1, max_inflated_bytes)
            if problem is not None:
                raise problem
            if messages and messages[0][0] == offset:
                return messages[0]
            low, high = result.min_offset, result.max_offset
            if not low <= offset < high:
                return None
            time.sleep(_PAUSE_SECONDS * attempt)
        raise ShortError(offset, low, high, "no message")

    def read(
        self, topic: str, broker: str, queue_id: int, start: int, end: int, max_inflated_bytes: int
    ) -> Iterator[list[Fields]]:
        """Yield every message of [start, end) exactly once, in order.

        Raises:
            MovedError: part of the range has expired or was never written.
            ShortError: the broker does not return all of it.
            UnsupportedError, LostError: the library cannot read a message; the text has its offset.
            CallError: the broker cannot be reached or rejects the request.
        """
        queue = _queue(topic, broker, queue_id)
        position, failures, most = start, 0, MOST_A_PULL
        while position < end:
            count = min(most, end - position)
            try:
                messages, result, problem = self._pull(queue, position, count, max_inflated_bytes)
            except UnsupportedError:
                if count == 1:
                    raise
                most = 1  # one of them cannot be inflated: those before it are pulled one by one
                continue
            if result.status == OFFSET_ILLEGAL:
                raise MovedError(result.min_offset, result.max_offset)
            expected = position
            for fields in messages:
                if fields[0] != expected:
                    break
                expected += 1
            if expected > position:
                yield messages[: expected - position]
                position, failures = expected, 0
            elif problem is None:
                failures += 1
                if failures > _RETRIES:
                    why = (
                        f"the message at {messages[0][0]!r}" if messages else f"none (status {result.status})"
                    )
                    raise ShortError(position, result.min_offset, result.max_offset, why)
                time.sleep(_PAUSE_SECONDS)
            if problem is not None and position < end:
                raise problem

    def _pull(
        self, queue: MessageQueue, offset: int, count: int, max_inflated_bytes: int
    ) -> tuple[list[Fields], PullResult, Exception | None]:
        """The messages of one pull before the first that cannot be read, and why that one cannot."""
        self._check_process()
        library = self._library
        result = library.Pull(self._consumer, byref(queue), b"*", offset, count)
        if result.status not in (FOUND, NO_NEW_MESSAGE, NO_MATCHED_MESSAGE, OFFSET_ILLEGAL):
            raise self._failed_pull(offset, count)
        if result.status != FOUND:
            return [], result, None
        messages: list[Fields] = []
        topic = queue.topic.decode()
        try:
            for index in range(min(result.size, count)):
                address = result.messages[index]
                try:
                    messages.append(fields_of(library, address, topic, max_inflated_bytes))
                except (LostError, UnsupportedError) as error:
                    at = library.GetMessageQueueOffset(address)
                    return messages, result, type(error)(f"the message at offset {at}: {error}")
            return messages, result, None
        finally:
            library.ReleasePullResult(result)

    def _failed_pull(self, offset: int, count: int) -> CallError | UnsupportedError:
        """The error for a pull that failed, by the log or, if that has no reason, by the latest error of the library."""
        reasons = self._log.failures()
        said = (self._library.GetLatestErrorMessage() or b"").decode("utf-8", "replace")
        if not reasons and said == _NOT_INFLATED:
            return UnsupportedError(f"the message at offset {offset}: {NO_CODEC}")
        return CallError(f"pull of {count} messages at offset {offset}", reasons)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise UsedAfterForkError(
                f"the consumer was started by process {self._pid}, and the library's threads do not run in its fork "
                f"{os.getpid()}: start a consumer in this process"
            )


def _queue(topic: str, broker: str, queue_id: int) -> MessageQueue:
    queue = MessageQueue()
    for name, value in (("topic", topic.encode()), ("broker", broker.encode())):
        if len(value) >= getattr(MessageQueue, name).size:
            raise UnsupportedError(f"the name of the {name} is too long for librocketmq: {len(value)} bytes")
        setattr(queue, name, value)
    queue.queue_id = queue_id
    return queue
