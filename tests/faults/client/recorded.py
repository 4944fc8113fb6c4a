"""Real answers of real brokers, recorded once, and what accidents do to bytes."""

from __future__ import annotations

import random
import re
import struct
from contextlib import suppress
from dataclasses import dataclass

from spark_jobs.rocketmq import frames
from spark_jobs.rocketmq.errors import OffsetMovedError
from tests.faults.client.conftest import SEALED_TOPIC, Sealed
from tests.faults.client.streams import recorder
from tests.rocketmq.conftest import CODECS, LONG_TOPIC, Written, queue
from tests.rocketmq.proxy import Proxied, proxy

RANGE = 200
_OFFSET_AT = 20  # of a message's queue offset within it
_EXTREMES = (0, 1, -1, -(2**31), 2**31 - 1, 2**24, 2**16, 255, -4)


@dataclass(frozen=True)
class Recorded:
    """What brokers sent.

    Attributes:
        frames: whole frames, their length included: offsets, pulls, refusals and routes, with headers of both codecs.
        routes: bodies of answers of nameservers.
        stored: bodies of pulls: some messages each, of all codecs.
        range: the messages [0, RANGE) of one queue.
    """

    frames: list[bytes]
    routes: list[bytes]
    stored: list[bytes]
    range: list[bytes]


def record(written: Written, sealed: Sealed) -> Recorded:
    """Ask a broker that writes JSON headers, and one that writes binary ones."""
    routes: list[bytes] = []
    answers: list[bytes] = []
    pulls: list[bytes] = []
    for sandbox, topics in (
        (written.sandbox, [f"codec-{codec}" for codec in CODECS]),
        (sealed.sandbox, [SEALED_TOPIC]),
    ):
        with (
            proxy(sandbox.namesrv, recorder(routes)) as namesrv,
            proxy(sandbox.broker_address, recorder(answers)) as address,
            Proxied(namesrv, address) as client,
        ):
            for topic in topics:
                where = queue(client, topic)
                client.bounds(where)
                client.offset_at(where, 0)
                client.pull(where, 0, 4)
                client.pull(where, 7, 3)
                with suppress(OffsetMovedError):
                    client.pull(where, 10**6, 1)
    with (
        proxy(written.sandbox.broker_address, recorder(pulls)) as address,
        Proxied(written.sandbox.namesrv, address) as client,
    ):
        assert sum(map(len, client.read(queue(client, LONG_TOPIC), 0, RANGE))) == RANGE
    ranged: dict[int, bytes] = {}
    for body in map(body_of, pulls):
        while body:
            size, offset = struct.unpack_from(">i", body)[0], struct.unpack_from(">q", body, _OFFSET_AT)[0]
            ranged[offset], body = body[:size], body[size:]
    stored = [body for body in map(body_of, answers) if body]
    return Recorded(answers + routes, list(map(body_of, routes)), stored, [ranged[n] for n in range(RANGE)])


def body_of(frame: bytes) -> bytes:
    return bytes(frames.decode(frame[4:]).body)


def damaged(chance: random.Random, data: bytes) -> bytes:
    """The bytes after one to four accidents."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        chance.choice(_ACCIDENTS)(chance, changed)
    return bytes(changed)


def _flip_a_bit(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _another_byte(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.randrange(256)


def _cut(chance: random.Random, data: bytearray) -> None:
    del data[chance.randint(0, len(data)) :]


def _lose(chance: random.Random, data: bytearray) -> None:
    at = chance.randint(0, len(data))
    del data[at : at + chance.choice((1, 2, 4, 100))]


def _insert(chance: random.Random, data: bytearray) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = chance.choice((chance.randbytes(chance.randint(1, 9)), data[:50], b"[" * 5000, b'"', b"\\"))


def _swap_words(chance: random.Random, data: bytearray) -> None:
    if len(data) >= 8:
        one, other = chance.randrange(len(data) // 4) * 4, chance.randrange(len(data) // 4) * 4
        data[one : one + 4], data[other : other + 4] = data[other : other + 4], data[one : one + 4]


def _extreme_length(chance: random.Random, data: bytearray) -> None:
    if len(data) >= 4:
        at = chance.choice((0, 4, 84, chance.randrange(len(data) - 3)))
        data[at : at + 4] = struct.pack(">i", chance.choice(_EXTREMES))


def _extreme_short(chance: random.Random, data: bytearray) -> None:
    if len(data) >= 2:
        at = chance.randrange(len(data) - 1)
        data[at : at + 2] = struct.pack(">h", chance.choice((0, 1, -1, 2**15 - 1, -(2**15))))


def _extreme_number(chance: random.Random, data: bytearray) -> None:
    """A number of a text, such as a count of queues or an offset."""
    if numbers := list(re.finditer(rb"\d+", data[:2000])):
        one = chance.choice(numbers)
        extremes = (
            b"-1",
            b"9" * 18,
            b"9" * 5000,
            b"1e400",
            b"Infinity",
            b"null",
            b"{}",
            b"1.5",
            b"2147483647",
        )
        data[one.start() : one.end()] = chance.choice(extremes)


_ACCIDENTS = (
    _flip_a_bit,
    _another_byte,
    _cut,
    _lose,
    _insert,
    _swap_words,
    _extreme_length,
    _extreme_short,
    _extreme_number,
)
