"""Read an exact range of offsets over one connection, with several pulls in flight.

A broker returns at most 32 messages or 256 KB per pull from memory, and 8 messages or 64 KB from disk, whatever count
is requested (`maxTransfer{Bytes,Count}OnMessageIn{Memory,Disk}`). So a range is read by many small pulls. Each requests
as many messages as the broker returned recently; omitted offsets are requested again; responses arrive in any order and
are yielded in the order of the offsets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.errors import ProtocolError, QueueLocation, ShortRangeError
from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.inflate import COMPRESSED
from spark_jobs.rocketmq.message import Message, inflated, malformed, scan_until_malformed
from spark_jobs.rocketmq.route import MessageQueue

_FIRST_STRIDE = 32
_MAX_STRIDE = 1024
# After so many full responses a larger count is tried. A short response then costs a round trip, for which the
# responses after it wait, so the next try comes after twice as many full responses.
_PROBE_INTERVAL = 16
_MAX_PROBE_INTERVAL = 1024
_RETRIES = 8
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
INFLATED_AT_ONCE = 4 * 1024 * 1024


@dataclass(eq=False)
class RangeReader:
    """Reads [position, end) of a queue once; `position` is the first offset that was not yielded yet.

    Memory is bounded by `depth` responses that are in flight or wait for an earlier one, each of at most the broker's
    limit. Bodies are inflated just before they are yielded, some MB at a time.
    """

    connection: Connection
    queue: MessageQueue
    position: int
    end: int
    location: QueueLocation
    group: str
    depth: int
    max_inflated_bytes: int
    _stride: int = field(default=_FIRST_STRIDE, init=False)
    _full_responses: int = field(default=0, init=False)
    _probe_after: int = field(default=_PROBE_INTERVAL, init=False)
    # Offset ranges [first, last) to request again, and in flight by opaque; messages and failed pulls by first offset.
    _to_retry: deque[tuple[int, int]] = field(default_factory=deque, init=False)
    _in_flight: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    _received: dict[int, list[Message]] = field(default_factory=dict, init=False)
    _failures: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Start at `position`."""
        self._next = self.position

    def batches(self) -> Iterator[list[Message]]:
        """Yield the messages in the order of their offsets, in lists of bounded size.

        Raises:
            ShortRangeError: the broker does not return a message of the range after all retries.
            OffsetMovedError: the range is outside of the broker's offsets, or has expired meanwhile.
            RocketMQError: as `Connection.receive` and `requests.failure`.
        """
        while self.position < self.end:
            self._fill()
            frame = self.connection.receive()
            first, last = self._in_flight.pop(frame.opaque)
            if frame.code == requests.SUCCESS:
                self._accept(frame, first, last)
            else:
                self._retry_empty(frame, first, last)
            while (messages := self._received.pop(self.position, None)) is not None:
                yield from self._inflate(messages)

    def _fill(self) -> None:
        """Send pulls until `depth` are in flight."""
        while self._to_retry:
            self._send(*self._to_retry.popleft())
        while self._next < self.end and len(self._in_flight) + len(self._received) < self.depth:
            stride = self._stride
            if self._full_responses >= self._probe_after:
                self._full_responses, stride = 0, min(2 * stride, _MAX_STRIDE)
            last = min(self._next + stride, self.end)
            self._send(self._next, last)
            self._next = last

    def _send(self, first: int, last: int) -> None:
        fields = requests.pull(self.queue.topic, self.queue.queue_id, first, last - first, self.group)
        self._in_flight[self.connection.send(requests.PULL_MESSAGE, fields)] = first, last

    def _inflate(self, messages: list[Message]) -> Iterator[list[Message]]:
        ready: list[Message] = []
        size = 0
        for message in messages:
            if message.sys_flag & COMPRESSED:
                message = inflated(message, self.max_inflated_bytes)
            ready.append(message)
            size += len(message.body)
            if size >= INFLATED_AT_ONCE:
                self.position += len(ready)
                yield ready
                ready, size = [], 0
        if ready:
            self.position += len(ready)
            yield ready

    def _accept(self, frame: Frame, first: int, last: int) -> None:
        """Store the messages of a response, and schedule retries for the offsets of [first, last) that it omits."""
        messages, error = scan_until_malformed(frame.body, self.max_inflated_bytes, first, last)
        if not messages:
            if error:
                self._isolate_malformed(frame, first, last, error)
            else:
                self._retry_empty(frame, first, last)
            return
        expected = first
        run: list[Message] = []
        for message in messages:
            offset = message.queue_offset
            if offset != expected:
                if offset < expected:
                    raise ProtocolError(
                        f"{self.location}: a pull at offset {first} returned {offset} after {expected - 1}: offsets must rise"
                    )
                if run:
                    self._received[run[0].queue_offset] = run
                    run = []
                self._retry_omitted(frame, expected, offset)
                expected = offset
            run.append(message)
            expected += 1
        self._received[run[0].queue_offset] = run
        is_probe = last - first > self._stride
        if expected < last:
            self._full_responses = 0
            if is_probe:
                self._probe_after = min(2 * self._probe_after, _MAX_PROBE_INTERVAL)
            self._stride = max(1, min(len(messages), self._stride))
            if last == self._next:  # nothing after it was requested: the next pull continues here
                self._next = expected
            else:
                self._to_retry.append((expected, last))
        else:
            self._full_responses += 1
            if is_probe:
                self._stride, self._probe_after = last - first, _PROBE_INTERVAL

    def _isolate_malformed(self, frame: Frame, first: int, last: int, error: str) -> None:
        """The first message of the response is malformed: pull it alone, then keep its bytes as they are."""
        if last - first > 1:
            self._to_retry.extend(((first, first + 1), (first + 1, last)))
        elif first not in self._failures:
            self._failures[first] = 1
            self._to_retry.append((first, last))
        else:
            self._received[first] = [malformed(bytes(frame.body), self.queue.queue_id, first, error)]

    def _retry_omitted(self, frame: Frame, first: int, last: int) -> None:
        """Retry [first, last), which the broker omitted between two messages of one response."""
        if self._count_failure(first) > _RETRIES:
            raise self._short_range(frame, first, f"the broker omits the offsets [{first}, {last})")
        self._to_retry.append((first, last))

    def _retry_empty(self, frame: Frame, first: int, last: int) -> None:
        """Retry after a response without messages if that may help, with a growing pause."""
        failures = self._count_failure(first)
        may_retry = failures <= _RETRIES
        if frame.code in requests.BUSY and may_retry and not requests.is_rejected_by_slave(frame):
            time.sleep(min(_PAUSE_SECONDS * 2**failures, _LONGEST_PAUSE_SECONDS))
        elif frame.code in requests.PULL_RESPONSES:
            if not may_retry:
                raise self._short_range(frame, first, f"the broker returned no message at offset {first}")
            if failures > 1:  # code 20 asks for an immediate retry
                time.sleep(_PAUSE_SECONDS)
        elif failures > 1 or not requests.is_reset(frame, first):
            raise requests.failure(frame, self.location, f"pull of offsets [{first}, {last})")
        self._to_retry.append((first, last))

    def _count_failure(self, first: int) -> int:
        self._failures[first] = self._failures.get(first, 0) + 1
        return self._failures[first]

    def _short_range(self, frame: Frame, first: int, why: str) -> ShortRangeError:
        low, high = (frame.fields.get(name, "?") for name in ("minOffset", "maxOffset"))
        return ShortRangeError(
            f"{self.location}: {why} (code {frame.code}) in {_RETRIES + 1} attempts; it reports the offsets "
            f"[{low}, {high}), and the range ends at {self.end}. No message was skipped: plan again, and if this offset "
            "is still missing, check the broker's store for lost or damaged files",
            first,
        )
