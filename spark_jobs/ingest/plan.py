"""Plan one extraction: for each queue a fixed range of offsets, and the position that it leads to.

The plan asks the brokers, reads no table and writes nothing. A queue that fails (its broker is
away, its topic was made anew) fails alone; the others are planned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from spark_jobs.ingest.step import Bounds, Broker, Gap, QueueError, Step, step
from spark_jobs.lake.offsets import Position, Positions, Queue, Range
from spark_jobs.settings import Cluster


@dataclass(frozen=True)
class Plan:
    """What one run does; `positions` are the books after it, of every queue ever seen."""

    planned_at: int
    steps: list[Step] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    positions: Positions = field(default_factory=dict)

    @property
    def ranges(self) -> list[Range]:
        return [each.range for each in self.steps if each.range.end > each.range.start]

    @property
    def gaps(self) -> list[Gap]:
        return [each.gap for each in self.steps if each.gap]


def plan(
    broker: Broker,
    queues: Iterable[Queue],
    committed: Positions,
    planned_at: int,
    margin_ms: int,
    max_offsets: int,
    expected_errors: tuple[type[Exception], ...],
) -> Plan:
    """Plan the queues, at most `max_offsets` in all (at least one each).

    Args:
        broker: answers for bounds and messages.
        queues: the queues in the route of the topics.
        committed: positions of the last publication, of all clusters.
        planned_at: now, ms since 1970.
        margin_ms: how far behind `planned_at` a queue that was read to its end counts as complete.
        max_offsets: bound on the messages of this run. A queue gets an equal share, and what the
            queues with less to read leave over.
        expected_errors: what `broker` raises when a broker is away or refuses; such a queue fails.

    A queue with a position that is in the route no more, or fails, keeps its position: the
    watermark of its cluster stands still until someone looks.
    """
    alone: tuple[type[Exception], ...] = (*expected_errors, QueueError)
    done = Plan(planned_at, positions=dict(committed))
    found: dict[Queue, Bounds] = {}
    for queue in sorted(set(queues)):
        try:
            found[queue] = broker.bounds(queue)
        except alone as error:
            fail(done, queue, str(error))
    waiting = {
        queue: bounds.max_offset - max(bounds.min_offset, committed[queue].next if queue in committed else 0)
        for queue, bounds in found.items()
    }
    shares = _shares(waiting, max_offsets)
    for queue, bounds in found.items():
        try:
            next_step = step(
                broker, queue, bounds, committed.get(queue), planned_at, margin_ms, shares[queue]
            )
        except alone as error:
            fail(done, queue, str(error))
            continue
        done.steps.append(next_step)
        done.positions[queue] = next_step.position
    return done


def fail(done: Plan, queue: Queue, why: str) -> None:
    """Note a failure; a queue that was never read holds the watermark at the beginning of time."""
    done.failures[str(queue)] = why
    done.positions.setdefault(queue, Position(next=0))


def without(done: Plan, queue: Queue, committed: Positions, why: str) -> Plan:
    """The plan with nothing of a queue that turned out to be unreadable: it keeps the position it had."""
    rest = replace(
        done,
        steps=[each for each in done.steps if each.range.queue != queue],
        failures=dict(done.failures),
        positions=dict(done.positions),
    )
    rest.positions.pop(queue)
    if queue in committed:
        rest.positions[queue] = committed[queue]
    fail(rest, queue, why)
    return rest


def _shares(waiting: dict[Queue, int], max_offsets: int) -> dict[Queue, int]:
    """How many offsets each queue may read: those with least waiting first, the others share what is left."""
    shares = {}
    left = max_offsets
    for rank, queue in enumerate(sorted(waiting, key=lambda q: (waiting[q], q))):
        share = max(0, min(left // (len(waiting) - rank), waiting[queue]))
        left -= share
        shares[queue] = max(1, share)
    return shares


def watch(done: Plan, cluster: Cluster, routed: set[str]) -> None:
    """Judge the queues of a cluster that the plan did not meet, though they were read before.

    One of a topic that is no longer configured is retired: it holds no watermark back. One that the
    route of a configured topic (`routed`: topics whose route was answered) lacks is a failure: its
    broker is away or was taken out, and the watermark stands still until it is back.
    """
    met = {each.range.queue for each in done.steps}
    for queue, position in done.positions.items():
        if queue.cluster != cluster.name or queue in met or str(queue) in done.failures:
            continue
        if queue.trace_topic not in cluster.topics:
            done.positions[queue] = replace(position, retired=True)
        elif queue.trace_topic in routed:
            done.failures[str(queue)] = (
                f"queue {queue}: the topic's route has it no more, so the watermark of the cluster stands still. "
                "Start its broker; if it was taken out for good, take the topic out of the settings for one run, "
                "which retires its queues"
            )
