"""Plan one extraction: for each queue a fixed range of offsets, and the position that it leads to.

The plan asks the brokers, reads no table and writes nothing. A queue that fails (its broker is
away, its topic was made anew) fails alone; the others are planned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from spark_jobs.ingest.positions import Position, Positions, Queue, Range
from spark_jobs.settings import Cluster


class Message(Protocol):
    """What the plan needs of a stored message."""

    @property
    def store_time(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def body_crc(self) -> int: ...


class Broker(Protocol):
    """What the plan asks about one queue."""

    def bounds(self, queue: Queue) -> tuple[int, int]:
        """The smallest offset that the broker still has, and the one after the largest."""

    def message_at(self, queue: Queue, offset: int) -> Message | None:
        """The message at the offset; None where the broker has none there."""


class QueueFailed(Exception):
    """A queue cannot be read on; nothing of it was skipped."""


@dataclass(frozen=True)
class Gap:
    """Offsets that the broker deleted before they were read."""

    missing: Range
    from_time: int | None
    to_time: int | None


@dataclass(frozen=True)
class Step:
    """What one run does with one queue."""

    range: Range
    position: Position
    lag: int
    gap: Gap | None = None


@dataclass(frozen=True)
class Plan:
    """What one run does; `positions` are the books after it, of every queue ever seen."""

    planned_at: int
    steps: list[Step] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    positions: Positions = field(default_factory=dict)

    @property
    def ranges(self) -> list[Range]:
        return [step.range for step in self.steps if step.range.end > step.range.start]

    @property
    def gaps(self) -> list[Gap]:
        return [step.gap for step in self.steps if step.gap]


def plan(
    broker: Broker,
    queues: Iterable[Queue],
    booked: Positions,
    planned_at: int,
    margin_ms: int,
    max_offsets: int,
    expected_errors: tuple[type[Exception], ...],
) -> Plan:
    """Plan the queues, at most `max_offsets` in all (at least one each).

    Args:
        broker: answers for bounds and messages.
        queues: the queues in the route of the topics.
        booked: positions of the last publication, of all clusters.
        planned_at: now, ms since 1970.
        margin_ms: how far behind `planned_at` a queue that was read to its end counts as complete.
        max_offsets: bound on the messages of this run.
        expected_errors: what `broker` raises when a broker is away or refuses; such a queue fails.

    A queue with a position that is in the route no more, or fails, keeps its position: the
    watermark of its cluster stands still until someone looks.
    """
    listed = sorted(set(queues))
    share = max(1, max_offsets // max(1, len(listed)))
    alone: tuple[type[Exception], ...] = (*expected_errors, QueueFailed)
    done = Plan(planned_at, positions=dict(booked))
    for queue in listed:
        try:
            step = _step(broker, queue, booked.get(queue), planned_at, margin_ms, share)
        except alone as error:
            done.failures[str(queue)] = str(error)
            # A queue that was never read holds the watermark at the beginning of time.
            done.positions.setdefault(queue, Position(next=0))
            continue
        done.steps.append(step)
        done.positions[queue] = step.position
    return done


def watch(done: Plan, cluster: Cluster, routed: set[str]) -> None:
    """Judge the queues of a cluster that the plan did not meet, though they were read before.

    One of a topic that is no longer configured is retired: it holds no watermark back. One that the
    route of a configured topic (`routed`: topics whose route was answered) lacks is a failure: its
    broker is away or was taken out, and the watermark stands still until it is back.
    """
    met = {step.range.queue for step in done.steps}
    for queue, position in done.positions.items():
        if queue.cluster != cluster.name or queue in met or str(queue) in done.failures:
            continue
        if queue.trace_topic not in cluster.trace_topics:
            done.positions[queue] = replace(position, retired=True)
        elif queue.trace_topic in routed:
            done.failures[str(queue)] = (
                f"queue {queue}: the topic's route has it no more, so the watermark of the cluster stands still. "
                "Start its broker; if it was taken out for good, take the topic out of the settings for one run, "
                "which retires its queues"
            )


def _step(
    broker: Broker, queue: Queue, known: Position | None, planned_at: int, margin_ms: int, share: int
) -> Step:
    smallest, after_largest = broker.bounds(queue)
    position = known or Position(next=smallest)
    _refuse_made_anew(broker, queue, position, smallest, after_largest)
    start = max(position.next, smallest)
    gap = None
    # A queue that failed before anything of it was read has a position, and no history to have a gap in.
    was_read = known is not None and (known.store_time is not None or known.epoch > 0)
    if known is not None and was_read and known.next < smallest:
        gap = _gap(broker, queue, known, smallest, after_largest, planned_at)
    end = min(after_largest, start + share)
    store_time, physical_offset, crc = position.store_time, position.physical_offset, position.crc
    if end > start:
        last = broker.message_at(queue, end - 1)
        if last is None:
            raise QueueFailed(
                f"queue {queue}: the broker says it has offsets {smallest} to {after_largest - 1}, but has "
                f"no message at {end - 1}. Nothing was read; the next run tries again"
            )
        store_time, physical_offset, crc = last.store_time, last.physical_offset, last.body_crc
    at_end = end == after_largest
    complete_to = planned_at - margin_ms if at_end else store_time
    return Step(
        Range(queue, position.epoch, start, end),
        Position(
            next=end,
            epoch=position.epoch,
            store_time=store_time,
            physical_offset=physical_offset,
            crc=crc,
            # A clock that was set back must not take back what was complete.
            complete_to=max(position.complete_to, complete_to or 0),
        ),
        lag=after_largest - end,
        gap=gap,
    )


def _refuse_made_anew(
    broker: Broker, queue: Queue, position: Position, smallest: int, after_largest: int
) -> None:
    """Compare the last message read with what the broker has at its offset now.

    Raises:
        QueueFailed: the topic was deleted and made anew since, even if it has grown past `next`.
    """
    advice = (
        "The topic was deleted and made anew, or the broker lost its store. If that is so, "
        f"`make ingest-reset QUEUE={queue}` starts a new epoch; what was read before stays"
    )
    if after_largest < position.next:
        raise QueueFailed(
            f"queue {queue}: read up to offset {position.next - 1}, but the broker ends at "
            f"{after_largest - 1}. {advice}"
        )
    if position.store_time is None or position.next == 0:
        return
    if smallest < position.next:
        there = broker.message_at(queue, position.next - 1)
        if there is None or not _same(there, position):
            raise QueueFailed(
                f"queue {queue}: the message at offset {position.next - 1} is another one. {advice}"
            )
    elif smallest < after_largest:
        first = broker.message_at(queue, smallest)
        if first is not None and first.store_time < position.store_time:
            raise QueueFailed(
                f"queue {queue}: the message at offset {smallest} was stored before the one at "
                f"{position.next - 1}, which was read. {advice}"
            )


def _same(message: Message, position: Position) -> bool:
    """Positions that were rebuilt from rows know no physical offset, or no CRC."""
    return (
        message.store_time == position.store_time
        and position.physical_offset in (None, message.physical_offset)
        and position.crc in (None, message.body_crc)
    )


def _gap(
    broker: Broker, queue: Queue, known: Position, smallest: int, after_largest: int, planned_at: int
) -> Gap:
    first = broker.message_at(queue, smallest) if smallest < after_largest else None
    return Gap(
        Range(queue, known.epoch, known.next, smallest),
        from_time=known.store_time,
        to_time=first.store_time if first else planned_at,
    )
