"""Damaged answers: what was meant, or an error of our own; never another one, a hang, or a lot of memory.

`TRACE_SOAK_FUZZ=1000000` sets how many answers are damaged, for a soak run.
"""

from __future__ import annotations

import os
import random
import resource
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.rocketmq import frames, reading, requests
from spark_jobs.rocketmq.connection import split_address
from spark_jobs.rocketmq.errors import QueueLocation, RequestTimeoutError, RocketMQError
from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.message import INNER_BATCH, scan_messages
from spark_jobs.rocketmq.reading import RangeReader
from spark_jobs.rocketmq.route import MessageQueue, decode_route
from tests.faults.client.conftest import Sealed
from tests.faults.client.recorded import RANGE, Recorded, damaged, record
from tests.rocketmq.conftest import Written
from tests.rocketmq.wire import decode_messages

CASES = int(os.environ.get("TRACE_SOAK_FUZZ", "8000"))
CASE_SECONDS = 5.0
MEMORY_BYTES = 300 * 1024 * 1024
LIMIT = 2_000_000


@pytest.fixture(scope="package")
def recorded(written: Written, sealed: Sealed) -> Recorded:
    return record(written, sealed)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading.time, "sleep", lambda _seconds: None)


def read_frame(data: bytes) -> Frame:
    """As `Connection.receive` does, from a stream that has nothing behind these bytes."""
    if len(data) < 4:
        raise RequestTimeoutError("the length does not come")
    length = frames.frame_length(data[:4])
    if length > len(data) - 4:
        raise RequestTimeoutError("the rest does not come")
    return frames.decode(data[4 : 4 + length])


def an_answer(chance: random.Random, recorded: Recorded) -> None:
    """Any frame: decoded, its numbers read, its refusal named, its body taken apart."""
    frame = read_frame(damaged(chance, chance.choice(recorded.frames)))
    assert all(isinstance(each, str) for pair in frame.fields.items() for each in pair)
    for name in ("offset", "minOffset", "maxOffset"):
        with suppress(RocketMQError):
            assert isinstance(requests.number(frame, name, QueueLocation()), int)
    assert isinstance(requests.failure(frame, QueueLocation(), "it"), RocketMQError)
    with suppress(RocketMQError):
        deque(decode_messages(frame.body, LIMIT), maxlen=0)


def messages(chance: random.Random, recorded: Recorded) -> None:
    """Stored messages: each body is one whose CRC is right, or says that it is not."""
    stored = damaged(chance, chance.choice(recorded.stored))
    for message in scan_messages(stored, LIMIT):
        if message.body_error is None and message.sys_flag & INNER_BATCH != INNER_BATCH:
            assert crc32(message.body) & 0x7FFFFFFF == message.body_crc
    for message in decode_messages(stored, LIMIT):
        assert len(message.body) <= max(LIMIT, len(stored))
        assert all(isinstance(each, str) for pair in message.properties.items() for each in pair)


def a_route(chance: random.Random, recorded: Recorded) -> None:
    """A route: queues that can be asked."""
    queues = decode_route("t", damaged(chance, chance.choice(recorded.routes)))
    assert len(queues) < 100_000
    for each in queues:
        assert each.queue_id >= 0
        assert isinstance(each.readable, bool)
        for _, address in each.addresses:
            split_address(address)


class Replay:
    """A connection that answers pulls with the recorded messages, some answers damaged, in any order."""

    def __init__(self, chance: random.Random, stored: list[bytes]) -> None:
        self._chance = chance
        self._stored = stored
        self._damage = chance.choice((0.02, 0.2, 1.0))
        self._asked: deque[tuple[int, int, int]] = deque()
        self._opaque = 0

    def send(self, code: int, fields: dict[str, str], body: bytes = b"") -> int:
        self._opaque += 1
        self._asked.append((self._opaque, int(fields["queueOffset"]), int(fields["maxMsgNums"])))
        return self._opaque

    def receive(self) -> Frame:
        self._asked.rotate(self._chance.randrange(len(self._asked)))
        opaque, first, count = self._asked.popleft()
        body = b"".join(self._stored[first : first + min(count, self._chance.randint(1, 40))])
        bounds = {"minOffset": "0", "maxOffset": str(RANGE), "nextBeginOffset": "1"}
        answer = frames.encode(requests.SUCCESS, opaque, bounds, body, frames.RESPONSE_FLAG)
        if self._chance.random() < self._damage:
            answer = damaged(self._chance, answer)
        return replace(read_frame(answer), opaque=opaque)


def a_range(chance: random.Random, recorded: Recorded) -> None:
    """A range over answers of which some are damaged: a beginning of it comes, in order, or all of it."""
    start = chance.randrange(RANGE)
    end = chance.randint(start, RANGE)
    ranged = RangeReader(
        Replay(chance, recorded.range),
        MessageQueue("long", "b", 0, ()),
        start,
        end,
        QueueLocation("c", "long", "b", 0),
        group="g",
        depth=chance.randint(1, 8),
        max_inflated_bytes=LIMIT,
    )
    seen: list[int] = []
    try:
        for batch in ranged.batches():
            seen += [message.queue_offset for message in batch]
    finally:
        assert seen == list(range(start, start + len(seen)))
        assert ranged.position == start + len(seen)
    assert len(seen) == end - start


@contextmanager
def within(seconds: float) -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


Target = Callable[[random.Random, Recorded], None]
TARGETS = {an_answer: 3, messages: 3, a_route: 3, a_range: 1}  # and how much of the cases each gets
by_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)


@by_target
def test_seeded_damage_is_survived(target: Target, recorded: Recorded, record_property):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    cases = CASES * TARGETS[target] // sum(TARGETS.values())
    for case in range(cases):
        try:
            with within(CASE_SECONDS):
                target(random.Random(case), recorded)
        except RocketMQError:
            refused += 1
        except BaseException as error:
            error.add_note(f"case {case} of {target.__name__}")
            raise
    record_property(
        "counts",
        {"decoder": target.__name__, "damaged": cases, "answered": cases - refused, "refused": refused},
    )
    assert 0 < refused < cases  # both ends are reached
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY_BYTES


@by_target
def test_found_damage_is_survived(target: Target, recorded: Recorded):
    """The same, with Hypothesis as the source of chance, which makes what it finds small."""

    @settings(max_examples=min(CASES // 100, 5000), deadline=None, database=None)
    @given(st.randoms(use_true_random=False))
    def find(chance: random.Random) -> None:
        with suppress(RocketMQError), within(CASE_SECONDS):
            target(chance, recorded)

    find()


def test_what_is_not_damaged_is_read(recorded: Recorded):
    """What is damaged above is real: as it came, all of it is read."""
    assert len(recorded.frames) > 30
    assert {frame[4] for frame in recorded.frames} == {frames.JSON_CODEC, frames.BINARY_CODEC}
    assert all(decode_route("t", body) for body in recorded.routes)
    flags = {m.sys_flag for body in recorded.stored for m in decode_messages(body) if m.body_error is None}
    assert flags == {0x000, 0x301, 0x101, 0x201}
    assert [m.queue_offset for body in recorded.range for m in decode_messages(body)] == list(range(RANGE))
