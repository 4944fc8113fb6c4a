"""Cutting of ranges: nothing lost, nothing twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.rocketmq.datasource import OffsetRange, split
from spark_jobs.rocketmq.route import MessageQueue


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=4),
    st.integers(1, 300),
)
def test_pieces_cover_every_offset_once(bounds: list[tuple[int, int]], max_offsets: int):
    ranges = [
        OffsetRange(MessageQueue("t", f"b{number}", 0, ()), start, start + length)
        for number, (start, length) in enumerate(bounds)
    ]
    pieces = split(ranges, max_offsets)
    covered = [(p.queue.broker, offset) for p in pieces for offset in range(p.start, p.end)]
    assert covered == [(r.queue.broker, offset) for r in ranges for offset in range(r.start, r.end)]
    assert all(0 < p.end - p.start <= max_offsets for p in pieces)
