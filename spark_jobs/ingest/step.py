"""The plan of one queue: from its committed offset and its broker's bounds to a range and a new position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spark_jobs.lake.offsets import Position, Queue, Range


class Message(Protocol):
    """The fields of a stored message that planning needs."""

    @property
    def store_time(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def body_crc(self) -> int: ...


class Bounds(Protocol):
    """The offsets [min_offset, max_offset) that a broker has of a queue."""

    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    @property
    def from_master(self) -> bool:
        """False where a slave answered: it may lag behind, so its max offset is not the end of the queue."""


class Broker(Protocol):
    """The requests that planning makes for one queue."""

    def bounds(self, queue: Queue) -> Bounds:
        """The min offset and the max offset of the queue."""

    def message_at(self, queue: Queue, offset: int) -> Message | None:
        """The message at the offset; None if the broker has none there."""


class QueueError(Exception):
    """A queue cannot be read; no message of it was skipped."""


@dataclass(frozen=True)
class Gap:
    """Offsets that the broker deleted (retention) before they were read."""

    missing: Range
    from_time: int | None
    to_time: int | None


@dataclass(frozen=True)
class Step:
    """What one run reads of one queue: the range, the position after it, the lag that remains, and a gap if any."""

    range: Range
    position: Position
    lag: int
    gap: Gap | None = None


def step(
    broker: Broker,
    queue: Queue,
    bounds: Bounds,
    known: Position | None,
    planned_at: int,
    margin_ms: int,
    share: int,
) -> Step:
    """Plan at most the next `share` offsets of the queue; times in ms.

    Raises:
        QueueError: the queue cannot be read.
    """
    position = known or Position(next=bounds.min_offset)
    raise_if_recreated(broker, queue, position, bounds)
    start = max(position.next, bounds.min_offset)
    gap = None
    # A queue that failed before its first read has a position, but nothing that could have a gap.
    was_read = known is not None and (known.store_time is not None or known.epoch > 0)
    if known is not None and was_read and known.next < bounds.min_offset:
        gap = _gap(broker, queue, known, bounds, planned_at)
    end = min(bounds.max_offset, start + share)
    store_time, physical_offset, crc = position.store_time, position.physical_offset, position.crc
    if end > start:
        last = broker.message_at(queue, end - 1)
        if last is None:
            raise QueueError(
                f"queue {queue}: the broker says it has offsets {bounds.min_offset} to "
                f"{bounds.max_offset - 1}, but has no message at {end - 1}. Nothing was read; the next run "
                "tries again"
            )
        store_time, physical_offset, crc = last.store_time, last.physical_offset, last.body_crc
    at_end = end == bounds.max_offset and bounds.from_master
    complete_to = planned_at - margin_ms if at_end else store_time
    return Step(
        Range(queue, position.epoch, start, end),
        Position(
            next=end,
            epoch=position.epoch,
            store_time=store_time,
            physical_offset=physical_offset,
            crc=crc,
            # The watermark never moves back, even if the clock is set back.
            complete_to=max(position.complete_to, complete_to or 0),
        ),
        lag=bounds.max_offset - end,
        gap=gap,
    )


def raise_if_recreated(broker: Broker, queue: Queue, position: Position, bounds: Bounds) -> None:
    """Compare the fingerprint of the last message read with the message at that offset now.

    Raises:
        QueueError: the topic was deleted and recreated, even if it has grown past `next` since; or only a slave
            answers, and it lags behind the committed offset.
    """
    advice = (
        "The topic was deleted and made anew, or the broker lost its store. If that is so, "
        f"`make ingest-reset QUEUE={queue}` starts a new epoch; what was read before stays"
    )
    if bounds.max_offset < position.next:
        ends = (
            f"queue {queue}: read up to offset {position.next - 1}, but the broker ends at "
            f"{bounds.max_offset - 1}. "
        )
        if bounds.from_master:
            raise QueueError(ends + advice)
        raise QueueError(ends + "The master is away and its slave lags behind; start the master")
    if position.store_time is None or position.next == 0:
        return
    if bounds.min_offset < position.next:
        there = broker.message_at(queue, position.next - 1)
        if there is None or not _same(there, position):
            raise QueueError(
                f"queue {queue}: the message at offset {position.next - 1} is another one. {advice}"
            )
    elif bounds.min_offset < bounds.max_offset:
        first = broker.message_at(queue, bounds.min_offset)
        if first is not None and first.store_time < position.store_time:
            raise QueueError(
                f"queue {queue}: the message at offset {bounds.min_offset} was stored before the one at "
                f"{position.next - 1}, which was read. {advice}"
            )


def _same(message: Message, position: Position) -> bool:
    """Positions that were rebuilt from rows have no physical offset, and may have no CRC."""
    return (
        message.store_time == position.store_time
        and position.physical_offset in (None, message.physical_offset)
        and position.crc in (None, message.body_crc)
    )


def _gap(broker: Broker, queue: Queue, known: Position, bounds: Bounds, planned_at: int) -> Gap:
    first = broker.message_at(queue, bounds.min_offset) if bounds.min_offset < bounds.max_offset else None
    return Gap(
        Range(queue, known.epoch, known.next, bounds.min_offset),
        from_time=known.store_time,
        to_time=first.store_time if first else planned_at,
    )
