"""The order and completeness of a range under answers that a healthy broker gives seldom or never."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spark_jobs.rocketmq import reading, requests
from spark_jobs.rocketmq.errors import (
    AuthenticationError,
    BrokerBusyError,
    BrokerError,
    OffsetMovedError,
    PermissionDeniedError,
    QueueLocation,
    ShortRangeError,
)
from spark_jobs.rocketmq.frames import RESPONSE_FLAG, Frame
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.reading import RangeReader
from spark_jobs.rocketmq.route import MessageQueue
from tests.rocketmq.wire import inner, stored

# What a broker of 4.9.7 answers.
ACL_4 = (
    "org.apache.rocketmq.acl.common.AclException: %s, "
    "org.apache.rocketmq.acl.plain.PlainPermissionManager.validate(PlainPermissionManager.java:683)"
)
QUEUE = MessageQueue("topic", "b", 3, ((0, "h:1"),))
Answer = tuple[int, bytes]


class ScriptedConnection:
    """Answers pulls in any order: `answer(first, count)` gives the code and the body."""

    def __init__(self, answer: Callable[[int, int], Answer], seed: int = 0) -> None:
        self._answer = answer
        self._random = random.Random(seed)
        self._waiting: list[tuple[int, int, int]] = []
        self._opaque = 0
        self.most_in_flight = 0

    def send(self, code: int, fields: dict[str, str], body: bytes = b"") -> int:
        assert code == requests.PULL_MESSAGE
        assert int(fields["sysFlag"]) == 4  # neither commits an offset nor waits
        self._opaque += 1
        self._waiting.append((self._opaque, int(fields["queueOffset"]), int(fields["maxMsgNums"])))
        self.most_in_flight = max(self.most_in_flight, len(self._waiting))
        return self._opaque

    def receive(self) -> Frame:
        opaque, first, count = self._waiting.pop(self._random.randrange(len(self._waiting)))
        code, body = self._answer(first, count)
        fields = {"minOffset": "0", "maxOffset": "1000"}
        return Frame(code, opaque, RESPONSE_FLAG, "", fields, memoryview(body))


def read(
    answer: Callable[[int, int], Answer], start: int, end: int, depth: int = 4, seed: int = 0
) -> list[Message]:
    connection = ScriptedConnection(answer, seed)
    ranged = RangeReader(connection, QUEUE, start, end, QueueLocation("c", "topic", "b", 3), "g", depth, 1000)
    messages = []
    for batch in ranged.batches():
        messages += batch
        assert ranged.position == messages[-1].queue_offset + 1
    assert connection.most_in_flight <= 2 * depth
    return messages


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading.time, "sleep", lambda _seconds: None)


def some(first: int, count: int) -> Answer:
    return 0, b"".join(stored(str(n).encode(), offset=n) for n in range(first, first + count))


@hypothesis_settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 50),
    st.integers(0, 400),
    st.integers(1, 70),
    st.integers(1, 20),
    st.integers(0, 1000),
    st.sampled_from([0, 0, 0.2, 0.5]),
)
def test_any_order_and_any_limit_gives_the_range_once(
    start: int, length: int, limit: int, depth: int, seed: int, refused: float
):
    chance = random.Random(seed)
    refusals: dict[int, int] = {}

    def answer(first: int, count: int) -> Answer:
        if chance.random() < refused and refusals.get(first, 0) < 5:
            refusals[first] = refusals.get(first, 0) + 1
            return chance.choice(
                [requests.PULL_RETRY_IMMEDIATELY, requests.PULL_NOT_FOUND, requests.SYSTEM_BUSY]
            ), b""
        return some(first, min(count, chance.randint(1, limit)))

    messages = read(answer, start, start + length, depth, seed)
    assert [m.queue_offset for m in messages] == list(range(start, start + length))
    assert all(m.body == str(m.queue_offset).encode() for m in messages)


def test_offsets_that_an_answer_leaves_out_are_asked_for_again():
    asked: list[int] = []

    def answer(first: int, count: int) -> Answer:
        asked.append(first)
        left_out = {5, 6, 20} if first == 0 else set()
        return 0, b"".join(some(n, 1)[1] for n in range(first, first + count) if n not in left_out)

    assert [m.queue_offset for m in read(answer, 0, 40)] == list(range(40))
    assert {5, 20} <= set(asked)


def test_a_pull_that_is_rejected_once_after_a_reset_of_the_group_is_repeated():
    rejected: Counter[int] = Counter()

    def answer(first: int, count: int) -> Answer:
        rejected[first] += 1
        return (requests.PULL_OFFSET_MOVED, b"") if first == 0 and rejected[0] == 1 else some(first, count)

    assert [m.queue_offset for m in read(answer, 0, 40)] == list(range(40))
    assert rejected[0] == 2

    with pytest.raises(OffsetMovedError):
        read(lambda *_: (requests.PULL_OFFSET_MOVED, b""), 0, 40)


def test_offsets_that_stay_out_are_an_error_and_nothing_behind_them_is_given_out():
    seen: list[int] = []

    def answer(first: int, count: int) -> Answer:
        numbers = [n for n in range(first, first + count) if n != 7]
        return 0 if numbers else requests.PULL_NOT_FOUND, b"".join(some(n, 1)[1] for n in numbers)

    location = QueueLocation("c", "topic", "b", 3)
    ranged = RangeReader(ScriptedConnection(answer), QUEUE, 0, 100, location, "g", 4, 1000)

    def collect() -> None:
        for batch in ranged.batches():
            seen.extend(m.queue_offset for m in batch)

    with pytest.raises(
        ShortRangeError, match="cluster c, topic topic, broker b, queue 3: .*offset 7"
    ) as caught:
        collect()
    assert caught.value.offset == 7
    assert seen == list(range(7))


def test_a_message_that_cannot_be_taken_apart_keeps_its_bytes_and_costs_no_neighbour():
    def answer(first: int, count: int) -> Answer:
        pieces = [bytes(120) if n == 7 else stored(offset=n) for n in range(first, first + count)]
        return 0, b"".join(pieces)

    messages = read(answer, 0, 40)
    assert [m.queue_offset for m in messages] == list(range(40))
    assert [m.queue_offset for m in messages if m.body_error] == [7]
    assert messages[7].body == bytes(120)
    assert (messages[7].body_error or "").startswith("malformed: ")


def test_a_range_may_begin_and_end_within_a_batch_kept_as_one_message():
    def answer(first: int, count: int) -> Answer:
        base = first // 10 * 10  # the broker gives whole batches
        body = b"".join(inner(str(n).encode()) for n in range(base, base + 10))
        return 0, stored(body, offset=base, sys_flag=0xC0)

    messages = read(answer, 13, 48)
    assert [(m.queue_offset, m.body) for m in messages] == [(n, str(n).encode()) for n in range(13, 48)]


@pytest.mark.parametrize(
    ("code", "remark", "error"),
    [
        (1, ACL_4 % "Check signature failed for accessKey=x", AuthenticationError),
        (1, ACL_4 % "No acl config for x", AuthenticationError),
        (1, ACL_4 % "No default permission for user-topic", PermissionDeniedError),
        (1, "store getMessage return null", BrokerError),
        (2, "[REJECTREQUEST]system busy, start flow control for a while", BrokerBusyError),
        (16, "the topic[t] pulling message is forbidden", PermissionDeniedError),
        (16, "User:x has no permission to access Topic:t", PermissionDeniedError),
        (16, "username cannot be null.", AuthenticationError),
        (21, "", OffsetMovedError),
        (215, "", BrokerBusyError),
        (999, "", BrokerError),
    ],
)
def test_what_the_codes_mean(code: int, remark: str, error: type):
    frame = Frame(code, 1, 1, remark, {"minOffset": "5", "maxOffset": "9"}, memoryview(b""))
    found = requests.failure(frame, QueueLocation("c", "t"), "a pull")
    assert type(found) is error
    assert str(found).startswith(f"cluster c, topic t: a pull failed with code {code}")
