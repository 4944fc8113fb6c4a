"""Plan one queue: from its committed offset and the broker's bounds to a range and a new position."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.lake.offsets import Position, Queue, Range
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.rocketmq.message import Message


class QueueError(Exception):
    """A queue cannot be read; no message of it was skipped."""


@dataclass(frozen=True)
class Gap:
    """Offsets that the broker deleted (retention) before they were read, and the store times around them, ms."""

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
    source: TopicSource,
    queue: Queue,
    bounds: Bounds,
    position: Position,
    planned_at: int,
    margin_ms: int,
    share: int,
) -> Step:
    """Plan at most the next `share` offsets of the queue from its position before; times in ms.

    Raises:
        QueueError: the queue cannot be read.
    """
    if position.unanswered:
        position = replace(position, next=bounds.min_offset, unanswered=False)
    raise_if_recreated(source, queue, position, bounds)
    start = max(position.next, bounds.min_offset)
    gap = None
    if position.next < bounds.min_offset:
        has_messages = bounds.min_offset < bounds.max_offset
        first = source.message_at(queue, bounds.min_offset) if has_messages else None
        missing = Range(queue, position.epoch, position.next, bounds.min_offset)
        # Of a queue that was empty, and of one that was reset, no message was read.
        from_time = position.store_time or position.complete_to or None
        gap = Gap(missing, from_time, first.store_time if first else planned_at)
    end = min(bounds.max_offset, start + share)
    if end > start:
        last = source.message_at(queue, end - 1)
        if last is None:
            raise QueueError(
                f"queue {queue}: the broker reports offsets {bounds.min_offset} to {bounds.max_offset - 1}, but has no "
                f"message at {end - 1}. Nothing was read; the next run retries"
            )
        position = replace(
            position, store_time=last.store_time, physical_offset=last.physical_offset, crc=last.body_crc
        )
    is_at_end = end == bounds.max_offset and bounds.from_master
    complete_to = planned_at - margin_ms if is_at_end else position.store_time or 0
    # The watermark never moves back, even if the clock is set back.
    complete_to = max(position.complete_to, complete_to)
    position = replace(position, next=end, complete_to=complete_to, retired=False)
    return Step(Range(queue, position.epoch, start, end), position, bounds.max_offset - end, gap)


def raise_if_recreated(source: TopicSource, queue: Queue, position: Position, bounds: Bounds) -> None:
    """Compare the fingerprint of the last message read with the message at that offset now.

    Raises:
        QueueError: the topic was deleted and recreated, even if it has grown past `next` since; or only a slave
            responds, and it lags behind the committed offset.
    """
    advice = (
        "The topic was deleted and recreated, or the broker lost its store. If that is so, "
        f"`make ingest-reset QUEUE={queue}` starts a new epoch; the messages that were read before are kept"
    )
    if bounds.max_offset < position.next:
        if not bounds.from_master:
            advice = "The master is down and its slave lags behind; start the master"
        raise QueueError(
            f"queue {queue}: read up to offset {position.next - 1}, but the broker ends at {bounds.max_offset - 1}. "
            f"{advice}"
        )
    if position.store_time is None or position.next == 0:
        return
    if bounds.min_offset < position.next:
        message = source.message_at(queue, position.next - 1)
        if message is None or not _matches(message, position):
            raise QueueError(
                f"queue {queue}: the message at offset {position.next - 1} is a different one. {advice}"
            )
    elif bounds.min_offset < bounds.max_offset:
        first = source.message_at(queue, bounds.min_offset)
        if first is not None and first.store_time < position.store_time:
            raise QueueError(
                f"queue {queue}: the message at offset {bounds.min_offset} was stored before the one at "
                f"{position.next - 1}, which was read. {advice}"
            )


def _matches(message: Message, position: Position) -> bool:
    """Whether a message has the fingerprint; positions rebuilt from rows have no physical offset and maybe no CRC."""
    return (
        message.store_time == position.store_time
        and position.physical_offset in (None, message.physical_offset)
        and position.crc in (None, message.body_crc)
    )
