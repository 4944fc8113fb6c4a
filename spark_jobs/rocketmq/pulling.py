"""One pull at an offset, for callers that want a few messages and the queue's bounds; `reading` is for ranges."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.errors import MalformedMessageError, QueueLocation
from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.message import Message, decode_messages, malformed
from spark_jobs.rocketmq.route import Queue

_ANSWERS = frozenset({requests.SUCCESS, requests.PULL_NOT_FOUND, requests.PULL_RETRY_IMMEDIATELY})


@dataclass(frozen=True, slots=True)
class Pulled:
    """A pull's answer: the messages, and [min_offset, max_offset) as the broker has it."""

    messages: list[Message]
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class Pull:
    """What to ask for: up to `count` messages from `offset` on; `group` is the consumer group that is named."""

    queue: Queue
    offset: int
    count: int
    group: str
    max_inflated_bytes: int

    def answer(self, connection: Connection, place: QueueLocation) -> Pulled:
        """Ask once. A message that cannot be taken apart is asked for again, alone, and then kept as its bytes.

        Raises:
            RocketMQError: as of `Connection.call` and `requests.failure`.
        """
        frame, messages, broken = self._ask(connection, place, self.count)
        if broken and not messages:
            frame, messages, broken = self._ask(connection, place, 1)
            if broken and not messages:
                messages = [malformed(bytes(frame.body), self.queue.queue_id, self.offset, broken)]
        low, high = (requests.number(frame, name, place) for name in ("minOffset", "maxOffset"))
        return Pulled(messages, low, high)

    def _ask(
        self, connection: Connection, place: QueueLocation, count: int
    ) -> tuple[Frame, list[Message], str]:
        """The answer, its messages as far as they can be taken apart, and why not further."""
        fields = requests.pull(self.queue.topic, self.queue.queue_id, self.offset, count, self.group)
        frame = connection.call(requests.PULL_MESSAGE, fields)
        if frame.code not in _ANSWERS:
            raise requests.failure(frame, place, f"pull of {count} messages at offset {self.offset}")
        messages: list[Message] = []
        if frame.code == requests.SUCCESS:
            try:
                for message in decode_messages(frame.body, self.max_inflated_bytes):
                    if message.queue_offset >= self.offset:
                        messages.append(message)
            except MalformedMessageError as error:
                return frame, messages, str(error)
        return frame, messages, ""
