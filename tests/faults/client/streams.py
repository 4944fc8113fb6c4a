"""What a broker sends, taken apart at its frames and the fields of its messages, to cut or stall it exactly there."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.rocketmq.proxy import Last, Tamper

_HEADER_AT = 8  # behind the frame's length and the header's
_BODY_SIZE_AT, _BODY_AT = 84, 88  # within a message whose hosts are IPv4


def _body_of(frame: bytes) -> int:
    (mark,) = struct.unpack_from(">I", frame, 4)
    return _HEADER_AT + (mark & 0xFFFFFF)


def _second_message(frame: bytes) -> int:
    """Where the frame's second message begins; its first, where it has but one."""
    first = _body_of(frame)
    (size,) = struct.unpack_from(">i", frame, first)
    return first + size if first + size < len(frame) else first


def _properties(frame: bytes) -> int:
    at = _second_message(frame)
    (body_size,) = struct.unpack_from(">i", frame, at + _BODY_SIZE_AT)
    topic_at = at + _BODY_AT + body_size
    return topic_at + 1 + frame[topic_at] + 2


# Where a frame may end too early: how many of its bytes still come.
FRAME_PLACES: dict[str, Callable[[bytes], int]] = {
    "before the frame": lambda _frame: 0,
    "within its length": lambda _frame: 3,
    "behind its length": lambda _frame: 4,
    "within the header's length": lambda _frame: 6,
    "behind the header's length": lambda _frame: 8,
    "within the header": lambda frame: (_HEADER_AT + _body_of(frame)) // 2,
    "at the header's last byte": lambda frame: _body_of(frame) - 1,
    "between header and body": _body_of,
    "at the frame's last byte": lambda frame: len(frame) - 1,
    "behind the frame": len,
}
MESSAGE_PLACES: dict[str, Callable[[bytes], int]] = {
    "within the first message's size": lambda frame: _body_of(frame) + 2,
    "between two messages": _second_message,
    "within a message's fields": lambda frame: _second_message(frame) + 40,
    "at the start of a message's body": lambda frame: _second_message(frame) + _BODY_AT,
    "within a message's body": lambda frame: _second_message(frame) + _BODY_AT + 10,
    "within a message's topic": lambda frame: _properties(frame) - 3,
    "within a message's properties": lambda frame: _properties(frame) + 3,
}


class Frames:
    """Gathers a stream into its frames."""

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete with this data."""
        self._waiting += data
        whole = []
        while len(self._waiting) >= 4:
            size = 4 + struct.unpack_from(">I", self._waiting)[0]
            if len(self._waiting) < size:
                break
            whole.append(self._waiting[:size])
            self._waiting = self._waiting[size:]
        return whole


class EndsWithin:
    """A tamper that ends the first connection within its answer `number`, at a place; `stall`: it stays open."""

    def __init__(self, number: int, place: Callable[[bytes], int], stall: bool = False) -> None:
        self.connections: set[int] = set()
        self.ended = False
        self._number = number
        self._place = place
        self._stall = stall
        self._frames = Frames()
        self._passed = 0

    def __call__(self, connection: int, _sent: int, data: bytes) -> bytes | None:
        self.connections.add(connection)
        if connection > 0:
            return data
        if self.ended:
            return b""
        passed = b""
        for frame in self._frames.feed(data):
            if self._passed == self._number:
                self.ended = True
                passed += frame[: self._place(frame)]
                return passed if self._stall else Last(passed)
            self._passed += 1
            passed += frame
        return passed


def recorder(frames: list[bytes]) -> Tamper:
    """A tamper that changes nothing and keeps every frame of every connection."""
    streams: dict[int, Frames] = {}

    def tamper(connection: int, _sent: int, data: bytes) -> bytes | None:
        frames.extend(streams.setdefault(connection, Frames()).feed(data))
        return data

    return tamper
