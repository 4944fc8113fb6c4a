"""Plan one extraction: a fixed range of offsets per queue, and the committed offsets after it.

Planning queries the brokers; it reads no table and writes nothing. A queue that fails (its broker cannot be reached,
its topic was deleted and recreated) fails alone; the others are planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spark_jobs.ingest.step import Gap, QueueError, Step, step
from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.lake.offsets import Position, Positions, Queue, Range, watermarks
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.settings import Cluster

_ERRORS = (RocketMQError, QueueError)  # one queue fails, the others are planned
# Each thread has connections of its own, which cost more than asking a few queues.
MOST_THREADS, QUEUES_PER_THREAD = 8, 16
T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """What one run reads.

    Attributes:
        planned_at: when the plan was made, ms since 1970.
        steps: one per queue that can be read.
        failures: queue to the reason why it cannot be read.
        positions: the committed offsets after the run, of every queue ever seen.
    """

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
    source: TopicSource,
    queues: Iterable[Queue],
    committed: Positions,
    planned_at: int,
    margin_ms: int,
    max_offsets: int,
) -> Plan:
    """Plan the queues, at most `max_offsets` messages in total (at least one per queue).

    Args:
        source: returns bounds and single messages.
        queues: the queues in the route of the topics.
        committed: committed offsets of all clusters.
        planned_at: now, ms since 1970.
        margin_ms: how far behind `planned_at` a queue that was read to its end counts as complete.
        max_offsets: limit of messages in this run. Each queue gets an equal share, and what queues with
            fewer messages do not use.

    A queue that has left the route, or fails, keeps its position: the watermark of its cluster does not advance
    until the failure is fixed. It does not move back either, also if a new queue has older messages.
    """
    done = Plan(planned_at, positions=dict(committed))
    marks = watermarks(committed)
    found: dict[Queue, Bounds] = {}
    for queue, bounds in _ask(sorted(set(queues)), source.bounds):
        if isinstance(bounds, _ERRORS):
            _add_failure(done, queue, marks, str(bounds))
        else:
            found[queue] = bounds
    waiting = {
        queue: bounds.max_offset - max(bounds.min_offset, committed[queue].next if queue in committed else 0)
        for queue, bounds in found.items()
    }
    shares = _shares(waiting, max_offsets)

    def step_of(queue: Queue) -> Step:
        known = _position(committed, queue, marks)
        return step(source, queue, found[queue], known, planned_at, margin_ms, shares[queue])

    for queue, next_step in _ask([*found], step_of):
        if isinstance(next_step, _ERRORS):
            _add_failure(done, queue, marks, str(next_step))
        else:
            done.steps.append(next_step)
            done.positions[queue] = next_step.position
    return done


def _ask(
    queues: list[Queue], question: Callable[[Queue], T]
) -> Iterable[tuple[Queue, T | RocketMQError | QueueError]]:
    """Each queue with the answer of its broker, or why there is none. Many queues are asked at the same time."""

    def answer(queue: Queue) -> T | RocketMQError | QueueError:
        try:
            return question(queue)
        except _ERRORS as error:
            return error

    threads = min(MOST_THREADS, len(queues) // QUEUES_PER_THREAD)
    if threads < 2:
        return [(queue, answer(queue)) for queue in queues]
    with ThreadPoolExecutor(threads) as pool:
        return list(zip(queues, pool.map(answer, queues), strict=True))


def _position(committed: Positions, queue: Queue, marks: dict[str, int]) -> Position:
    """The position of a queue before the run.

    A queue that is new, or was retired, counts as complete up to the watermark of its cluster: what it has from before is
    merged as late records.
    """
    known = committed.get(queue, Position(next=0, unanswered=True))
    return replace(known, complete_to=max(known.complete_to, marks.get(queue.cluster, 0)))


def _add_failure(done: Plan, queue: Queue, marks: dict[str, int], why: str) -> None:
    """Add a failure; a queue that was never read holds the watermark of its cluster where it is, for a new cluster at 1970."""
    done.failures[str(queue)] = why
    if queue not in done.positions:
        done.positions[queue] = _position({}, queue, marks)


def without_queue(done: Plan, queue: Queue, committed: Positions, why: str) -> Plan:
    """The plan without a queue that cannot be read; the queue keeps its committed offset."""
    positions = {each: position for each, position in done.positions.items() if each != queue}
    if queue in committed:
        positions[queue] = committed[queue]
    steps = [each for each in done.steps if each.range.queue != queue]
    rest = Plan(done.planned_at, steps, dict(done.failures), positions)
    _add_failure(rest, queue, watermarks(committed), why)
    return rest


def _shares(waiting: dict[Queue, int], max_offsets: int) -> dict[Queue, int]:
    """How many offsets each queue may read: queues with the smallest backlog first, the others share what is left."""
    shares = {}
    left = max_offsets
    for rank, queue in enumerate(sorted(waiting, key=lambda q: (waiting[q], q))):
        share = max(0, min(left // (len(waiting) - rank), waiting[queue]))
        left -= share
        shares[queue] = max(1, share)
    return shares


def handle_missing_queues(done: Plan, cluster: Cluster, routed: set[str]) -> None:
    """Handle queues of the cluster that were read before and are not in this plan.

    A queue of a topic that is no longer configured is retired: it does not hold the watermark back. A queue that is
    missing in the route of a configured topic (`routed`: topics whose route was returned) is a failure: its broker is
    down or was removed, and the watermark does not advance until it is back or retired. A retired queue that is read
    again is no longer retired.
    """
    met = {each.range.queue for each in done.steps}
    for queue, position in done.positions.items():
        if queue.cluster != cluster.name or queue in met or str(queue) in done.failures or position.retired:
            continue
        if queue.trace_topic not in cluster.topics:
            done.positions[queue] = replace(position, retired=True)
        elif queue.trace_topic in routed:
            done.failures[str(queue)] = (
                f"queue {queue}: it is no longer in the topic's route, so the watermark of the cluster does not advance. "
                f"Start its broker; if the broker or the queue was removed permanently, `make ingest-retire QUEUE={queue}` "
                "makes the watermark independent of it"
            )
