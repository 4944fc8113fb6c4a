"""What is read again: the offsets that were asked for, that were read before, and that the broker still has."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from spark_jobs.ingest.reextract import ReextractRequest, plan_reextract
from spark_jobs.ingest.step import QueueError
from spark_jobs.lake.offsets import Position, Queue
from spark_jobs.rocketmq.client import Bounds

A, B = Queue("c", "t", "a", 0), Queue("c", "t", "b", 0)


@dataclass(frozen=True)
class Stored:
    store_time: int
    physical_offset: int
    body_crc: int


class Brokers:
    """Each queue has the offsets [first, end); the message at an offset was stored at ten times that, in ms."""

    def __init__(self, logs: dict[Queue, tuple[int, int]], life: int = 0):
        self.logs, self.life = logs, life

    def bounds(self, queue: Queue) -> Bounds:
        return Bounds(*self.logs[queue], True)

    def message_at(self, queue: Queue, offset: int) -> Stored | None:
        first, end = self.logs[queue]
        return Stored(10 * offset, 100 * offset, self.life) if first <= offset < end else None

    def offset_at(self, queue: Queue, store_time_ms: int) -> int:
        first, end = self.logs[queue]
        return min(max(first, -(-store_time_ms // 10)), end)


def read_to(next_offset: int, epoch: int = 0) -> Position:
    last = next_offset - 1
    return Position(next_offset, epoch, 10 * last, 100 * last, 0)


def ranges(asked: ReextractRequest, logs=None, positions=None) -> dict[Queue, tuple[int, int]]:
    logs = logs or {A: (0, 50), B: (0, 50)}
    found = plan_reextract(Brokers(logs), list(logs), positions or {A: read_to(40), B: read_to(40)}, asked)
    return {each.range.queue: (each.range.start, each.range.end) for each in found}


def test_offsets_of_one_queue():
    assert ranges(ReextractRequest(5, 9, A)) == {A: (5, 9)}


def test_times_of_all_queues():
    assert ranges(ReextractRequest(101, 200)) == {A: (11, 20), B: (11, 20)}


def test_what_the_broker_has_no_more_is_not_asked_for():
    assert ranges(ReextractRequest(0, 30, A), logs={A: (20, 50)}) == {A: (20, 30)}
    assert ranges(ReextractRequest(0, 15, A), logs={A: (20, 50)}) == {}


def test_what_was_not_read_yet_is_left_to_the_extraction():
    assert ranges(ReextractRequest(30, 50, A)) == {A: (30, 40)}
    assert ranges(ReextractRequest(0, 10**6)) == {A: (0, 40), B: (0, 40)}


def test_the_epoch_is_the_one_that_is_read_now():
    (found,) = plan_reextract(
        Brokers({A: (0, 50)}), [A], {A: read_to(40, epoch=2)}, ReextractRequest(0, 9, A)
    )
    assert found.range.epoch == 2


def test_a_recreated_queue_has_other_messages():
    with pytest.raises(QueueError, match="ingest-reset"):
        plan_reextract(Brokers({A: (0, 50)}, life=1), [A], {A: read_to(40)}, ReextractRequest(0, 9, A))


def test_a_queue_that_was_never_read_is_refused():
    with pytest.raises(ValueError, match="never read, or no broker has it; known queues: c/t/a/0"):
        plan_reextract(Brokers({A: (0, 50)}), [A], {A: read_to(40)}, ReextractRequest(0, 9, B))
