"""Cutting of ranges, and filters that narrow them: nothing lost, nothing twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from spark_jobs.rocketmq.datasource import OffsetRange, may_match, narrow, split, supported
from spark_jobs.rocketmq.route import Queue

QUEUE = Queue("t", "broker-a", 0, ((0, "h:1"),))
OFFSET = ("queue_offset",)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=4),
    st.integers(1, 300),
)
def test_pieces_cover_every_offset_once(bounds: list[tuple[int, int]], max_offsets: int):
    ranges = [
        OffsetRange(Queue("t", f"b{number}", 0, ()), start, start + length)
        for number, (start, length) in enumerate(bounds)
    ]
    pieces = split(ranges, max_offsets)
    covered = [(p.queue.broker, offset) for p in pieces for offset in range(p.start, p.end)]
    assert covered == [(r.queue.broker, offset) for r in ranges for offset in range(r.start, r.end)]
    assert all(0 < p.end - p.start <= max_offsets for p in pieces)


@given(
    st.lists(
        st.builds(
            lambda kind, value: kind(OFFSET, value),
            st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]),
            st.integers(-5, 130),
        ),
        max_size=3,
    )
)
def test_narrowed_ranges_hold_what_passes_and_nothing_else(filters: list):
    passes = {
        EqualTo: lambda offset, value: offset == value,
        GreaterThan: lambda offset, value: offset > value,
        GreaterThanOrEqual: lambda offset, value: offset >= value,
        LessThan: lambda offset, value: offset < value,
        LessThanOrEqual: lambda offset, value: offset <= value,
    }
    kept = narrow(OffsetRange(QUEUE, 10, 110), filters)
    expected = [o for o in range(10, 110) if all(passes[type(f)](o, f.value) for f in filters)]
    assert list(range(kept.start, kept.end)) == expected


def test_filters_on_broker_and_queue():
    assert may_match([EqualTo(("broker",), "broker-a"), In(("queue_id",), (0, 1))], QUEUE)
    assert not may_match([EqualTo(("broker",), "broker-b")], QUEUE)
    assert not may_match([In(("queue_id",), (1, 2))], QUEUE)


def test_only_what_is_honoured_in_full_is_taken():
    assert supported(EqualTo(("broker",), "b"))
    assert supported(GreaterThan(OFFSET, 3))
    assert not supported(GreaterThan(("queue_id",), 3))
    assert not supported(EqualTo(("cluster",), "c"))
    assert not supported(In(OFFSET, (1, 2)))
    assert not supported(StringContains(("broker",), "a"))
