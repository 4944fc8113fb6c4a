"""Exact reading of a range of offsets over one connection, with several pulls in flight.

A broker returns at most 32 messages or 256 KB a pull from memory, and 8 or 64 KB from disk, whatever is asked
for (`maxTransfer{Bytes,Count}OnMessageIn{Memory,Disk}`). So a range is read as many small pulls: each asks
for as many as the broker gave lately, what it leaves out is asked for again, and their answers, which come in
any order, are put in the order of the offsets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.errors import MalformedMessageError, ProtocolError, QueueLocation, ShortRangeError
from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.inflate import COMPRESSED
from spark_jobs.rocketmq.message import Message, inflated, malformed, scan_messages
from spark_jobs.rocketmq.route import Queue

_FIRST_STRIDE = 32
_MAX_STRIDE = 1024
# After so many full answers more is asked for at once. What comes too short then costs a round trip, in which
# the answers behind it wait, so the next attempt comes after twice as many.
_PROBE_EVERY = 16
_PROBE_SELDOM = 1024
_RETRIES = 8
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
INFLATED_AT_ONCE = 4 * 1024 * 1024


class RangeRead:
    """Reads [start, end) of a queue once; `position` is the first offset that was not yielded yet.

    Memory is bound by `depth` answers in flight or waiting for an earlier one, each at most what the broker
    sends at once; bodies are inflated when it is their turn, some MB at a time.
    """

    def __init__(
        self,
        connection: Connection,
        queue: Queue,
        start: int,
        end: int,
        *,
        place: QueueLocation,
        group: str,
        depth: int,
        max_inflated_bytes: int,
    ) -> None:
        self.position = start
        self._connection = connection
        self._queue = queue
        self._end = end
        self._place = place
        self._group = group
        self._depth = depth
        self._max_inflated_bytes = max_inflated_bytes
        self._next = start
        self._stride = _FIRST_STRIDE
        self._full_answers = 0
        self._probe_after = _PROBE_EVERY
        self._again: deque[tuple[int, int]] = deque()
        self._asked: dict[int, tuple[int, int]] = {}
        self._done: dict[int, list[Message]] = {}
        self._refusals: dict[int, int] = {}

    def batches(self) -> Iterator[list[Message]]:
        """Yield the messages in the order of their offsets, in lists as they came.

        Raises:
            ShortRangeError: the broker does not give a message of the range, however often it is asked.
            OffsetMovedError: the range is not, or no longer, within what the broker has.
            RocketMQError: as of `Connection.receive` and `requests.failure`.
        """
        while self.position < self._end:
            self._ask()
            frame = self._connection.receive()
            first, last = self._asked.pop(frame.opaque)
            if frame.code == requests.SUCCESS:
                self._keep(frame, first, last)
            else:
                self._refused(frame, first, last)
            while (batch := self._done.pop(self.position, None)) is not None:
                yield from self._inflate(batch)

    def _ask(self) -> None:
        while self._again:
            self._send(*self._again.popleft())
        while self._next < self._end and len(self._asked) + len(self._done) < self._depth:
            stride = self._stride
            if self._full_answers >= self._probe_after:
                self._full_answers, stride = 0, min(2 * stride, _MAX_STRIDE)
            last = min(self._next + stride, self._end)
            self._send(self._next, last)
            self._next = last

    def _send(self, first: int, last: int) -> None:
        fields = requests.pull(self._queue.topic, self._queue.queue_id, first, last - first, self._group)
        self._asked[self._connection.send(requests.PULL_MESSAGE, fields)] = first, last

    def _inflate(self, messages: list[Message]) -> Iterator[list[Message]]:
        ready: list[Message] = []
        size = 0
        for message in messages:
            if message.sys_flag & COMPRESSED:
                message = inflated(message, self._max_inflated_bytes)
            ready.append(message)
            size += len(message.body)
            if size >= INFLATED_AT_ONCE:
                self.position += len(ready)
                yield ready
                ready, size = [], 0
        if ready:
            self.position += len(ready)
            yield ready

    def _keep(self, frame: Frame, first: int, last: int) -> None:
        """Take the messages of an answer, and ask again for those of [first, last) that it leaves out."""
        messages: list[Message] = []
        try:
            for message in scan_messages(frame.body, self._max_inflated_bytes):
                if first <= message.queue_offset < last:
                    messages.append(message)
        except MalformedMessageError as error:
            if not messages:
                return self._broken(frame, first, last, error)
        if not messages:
            return self._refused(frame, first, last)
        expected = first
        run: list[Message] = []
        for message in messages:
            offset = message.queue_offset
            if offset != expected:
                if offset < expected:
                    raise ProtocolError(
                        f"{self._place}: a pull at offset {first} gave {offset} after {expected - 1}: offsets must rise"
                    )
                if run:
                    self._done[run[0].queue_offset] = run
                    run = []
                self._missing(frame, expected, offset)
                expected = offset
            run.append(message)
            expected += 1
        self._done[run[0].queue_offset] = run
        probed = last - first > self._stride
        if expected < last:
            self._full_answers = 0
            if probed:
                self._probe_after = min(2 * self._probe_after, _PROBE_SELDOM)
            self._stride = max(1, min(len(messages), self._stride))
            if last == self._next:  # nothing was asked for beyond: ask on from here with the next pull
                self._next = expected
            else:
                self._again.append((expected, last))
        else:
            self._full_answers += 1
            if probed:
                self._stride, self._probe_after = last - first, _PROBE_EVERY
        return None

    def _broken(self, frame: Frame, first: int, last: int, error: MalformedMessageError) -> None:
        """The first message of the answer cannot be taken apart: get it alone, then keep its bytes as they are."""
        if last - first > 1:
            self._again.extend(((first, first + 1), (first + 1, last)))
        elif first not in self._refusals:
            self._refusals[first] = 1
            self._again.append((first, last))
        else:
            self._done[first] = [malformed(bytes(frame.body), self._queue.queue_id, first, str(error))]

    def _missing(self, frame: Frame, first: int, last: int) -> None:
        """The broker skipped [first, last) between two messages of one answer."""
        if self._refusal(first) > _RETRIES:
            raise self._short(frame, first, f"the broker leaves out the offsets [{first}, {last})")
        self._again.append((first, last))

    def _refused(self, frame: Frame, first: int, last: int) -> None:
        """The answer holds no message: ask again where that may help, a little later each time."""
        patient = self._refusal(first) <= _RETRIES
        if frame.code in requests.BUSY and patient and not requests.rejected(frame):
            time.sleep(min(_PAUSE_SECONDS * 2 ** self._refusals[first], _LONGEST_PAUSE_SECONDS))
        elif frame.code in (requests.SUCCESS, requests.PULL_NOT_FOUND, requests.PULL_RETRY_IMMEDIATELY):
            if not patient:
                raise self._short(frame, first, f"the broker gives no message at offset {first}")
            if self._refusals[first] > 1:  # code 20 means at once
                time.sleep(_PAUSE_SECONDS)
        else:
            raise requests.failure(frame, self._place, f"pull of offsets [{first}, {last})")
        self._again.append((first, last))

    def _refusal(self, first: int) -> int:
        self._refusals[first] = self._refusals.get(first, 0) + 1
        return self._refusals[first]

    def _short(self, frame: Frame, first: int, why: str) -> ShortRangeError:
        low, high = (frame.fields.get(name, "?") for name in ("minOffset", "maxOffset"))
        return ShortRangeError(
            f"{self._place}: {why} (code {frame.code}), asked {_RETRIES + 1} times; it says that it has "
            f"[{low}, {high}), and offsets up to {self._end} were to be read. Nothing was skipped: plan again, and "
            "if this offset stays missing, look for lost or damaged files in the broker's store",
            first,
        )
