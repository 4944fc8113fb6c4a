"""From positions to partitions: which offsets each Spark task reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import (
    OffsetMovedError,
    PermissionDeniedError,
    QueueLocation,
    QueueNotFoundError,
)
from spark_jobs.rocketmq.options import Options, Position, Timestamp
from spark_jobs.rocketmq.route import Queue

_BOUNDS = GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
_Column = tuple[str, ...]
_BROKER: _Column = ("broker",)
_QUEUE_ID: _Column = ("queue_id",)
_OFFSET: _Column = ("queue_offset",)


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """One task's share: offsets [start, end) of one queue."""

    queue: Queue
    start: int
    end: int
    epoch: int = 0

    def __post_init__(self) -> None:
        """Check the range; `InputPartition` has no use for a value of its own."""
        if not 0 <= self.start <= self.end:
            raise ValueError(
                f"[{self.start}, {self.end}) of {self.queue.broker}/{self.queue.queue_id} is no range"
            )


def plan(client: Client, options: Options, filters: Sequence[Filter]) -> list[OffsetRange]:
    """One range a queue, from the route and the positions that the options name.

    Where both positions are maps, no broker is asked: the ranges are those, whatever the brokers have by now.

    Raises:
        QueueNotFoundError: a map names a queue that the route does not have.
        PermissionDeniedError: a queue to read is not readable.
        OffsetMovedError, RocketMQError: a broker cannot be asked for the offsets that are needed.
    """
    maps = [position for position in (options.starting, options.ending) if isinstance(position, dict)]
    queues = {(queue.broker, queue.queue_id): queue for queue in client.queues(options.topic)}
    wanted = set(queues)
    for position in maps:
        wanted &= {(broker, queue_id) for broker, ids in position.items() for queue_id in ids}
        for broker, ids in position.items():
            if missing := [queue_id for queue_id in ids if (broker, queue_id) not in queues]:
                raise QueueNotFoundError(
                    f"{QueueLocation(options.cluster, options.topic, broker, missing[0])}: the route has no such queue; it "
                    f"has {', '.join(f'{b}/{q}' for b, q in sorted(queues)) or 'none'}. Is the broker down and "
                    "dropped from the route?"
                )
    ranges = []
    for key in sorted(wanted):
        queue = queues[key]
        if not may_match(filters, queue):
            continue
        if not queue.readable:
            raise PermissionDeniedError(
                f"{QueueLocation(options.cluster, options.topic, queue.broker, queue.queue_id)}: the topic's perm on this broker "
                "lets nobody read: set perm 6 or 4, or leave the queue out by maps of offsets"
            )
        # The start first: offsets only rise, so an end that is asked for later is not below it.
        start = _offset(client, queue, options.starting)
        end = _offset(client, queue, options.ending)
        if start > end:
            raise _backwards(options, queue, start, end)
        epoch = options.epochs.get(queue.broker, {}).get(queue.queue_id, 0)
        ranges.append(narrow(OffsetRange(queue, start, end, epoch), filters))
    return [each for each in ranges if each.start < each.end]


def _offset(client: Client, queue: Queue, position: Position) -> int:
    if isinstance(position, dict):
        return position[queue.broker][queue.queue_id]
    if isinstance(position, Timestamp):
        return client.offset_at(queue, position.ms)
    return client.min_offset(queue) if position == "earliest" else client.max_offset(queue)


def _backwards(options: Options, queue: Queue, start: int, end: int) -> OffsetMovedError:
    return OffsetMovedError(
        f"{QueueLocation(options.cluster, options.topic, queue.broker, queue.queue_id)}: the start {start} (startingOffsets) is "
        f"above the end {end} (endingOffsets). Either the options are the wrong way round, or these offsets have "
        "expired, or the topic was deleted and made anew since the start was noted",
        *(end, start),
    )


def split(ranges: Sequence[OffsetRange], max_offsets: int, min_partitions: int) -> list[OffsetRange]:
    """Cut the ranges into pieces of at most `max_offsets`, at least `min_partitions` if there are as many offsets."""
    total = sum(each.end - each.start for each in ranges)
    share = max(1, min(max_offsets, total // min_partitions))
    pieces = []
    for each in ranges:
        length = each.end - each.start
        count = -(-length // share)
        for index in range(count):
            start, end = each.start + length * index // count, each.start + length * (index + 1) // count
            pieces.append(replace(each, start=start, end=end))
    return pieces


def supported(each: Filter) -> bool:
    """Whether the plan honours the filter in full, so that Spark need not apply it again."""
    if isinstance(each, EqualTo | IsNotNull):
        return each.attribute in (_BROKER, _QUEUE_ID, _OFFSET)
    if isinstance(each, In):
        return each.attribute in (_BROKER, _QUEUE_ID)
    return isinstance(each, _BOUNDS) and each.attribute == _OFFSET


def may_match(filters: Sequence[Filter], queue: Queue) -> bool:
    """Whether any message of the queue can pass the filters on broker and queue_id."""
    values: dict[_Column, object] = {_BROKER: queue.broker, _QUEUE_ID: queue.queue_id}
    for each in filters:
        if isinstance(each, EqualTo) and values.get(each.attribute, each.value) != each.value:
            return False
        if isinstance(each, In) and each.attribute in values and values[each.attribute] not in each.value:
            return False
    return True


def narrow(each: OffsetRange, filters: Sequence[Filter]) -> OffsetRange:
    """The range without the offsets that the filters on queue_offset exclude."""
    start, end = each.start, each.end
    for condition in filters:
        if not isinstance(condition, EqualTo | _BOUNDS) or condition.attribute != _OFFSET:
            continue
        value = int(condition.value)
        if isinstance(condition, EqualTo):
            start, end = max(start, value), min(end, value + 1)
        elif isinstance(condition, GreaterThan | GreaterThanOrEqual):
            start = max(start, value + isinstance(condition, GreaterThan))
        else:
            end = min(end, value + isinstance(condition, LessThanOrEqual))
    return replace(each, start=min(start, max(end, 0)), end=max(end, 0))
