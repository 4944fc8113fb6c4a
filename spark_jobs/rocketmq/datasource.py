"""The Spark data source `rocketmq`: `spark.read.format("rocketmq")` reads a topic's messages by exact offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
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
from pyspark.sql.types import StructType

from spark_jobs.rocketmq.batches import SCHEMA, Origin, record_batches
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import OffsetMovedError, PermissionDeniedError, QueueNotFoundError
from spark_jobs.rocketmq.options import Bound, Options, Timestamp, queues_of
from spark_jobs.rocketmq.route import Queue

_COMPARISONS = GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
_BROKER, _QUEUE_ID, _OFFSET = ("broker",), ("queue_id",), ("queue_offset",)


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The input of one Spark task: offsets [start, end) of one queue."""

    queue: Queue
    start: int
    end: int
    epoch: int = 0

    def __post_init__(self) -> None:
        """Check the range; replaces the `__init__` of `InputPartition`, which takes one value."""
        if not 0 <= self.start <= self.end:
            queue = f"{self.queue.broker}/{self.queue.queue_id}"
            raise ValueError(f"[{self.start}, {self.end}) of {queue} is not a range of offsets")


class RocketMQDataSource(DataSource):
    """Batch reads of one topic of one cluster. Register it with `spark.dataSource.register(RocketMQDataSource)`.

    Options (all strings, names case-insensitive; an unknown one is an error):

    - `namesrv`: nameservers `host:port`, separated by `;`. Required.
    - `topic`: the topic, with its namespace if it has one (`<namespace>%<topic>`). Required.
    - `cluster`: text for the column `cluster`; default empty.
    - `startingOffsets` (inclusive) and `endingOffsets` (exclusive): `earliest`, `latest`, a time (ms since 1970, or ISO
      8601 in UTC; the first message stored at or after it) or a JSON map `{"<broker>": {"<queue id>": <offset>}}`.
      Defaults `earliest` and `latest`. With two maps, the offsets are not requested from the brokers.
    - `maxOffsetsPerPartition` (50000): maximum number of messages per task.
    - `maxInflatedBytes` (33554432): a body that inflates to more is returned as stored, with `body_error`.
    - `epochs`: JSON map as above with the number for the column `epoch`; default 0.
    - `credentialsEnv`: prefix of the environment variables `<prefix>_ACCESS_KEY`, `<prefix>_SECRET_KEY` and optionally
      `<prefix>_SECURITY_TOKEN`, on the driver and on every executor.
    - `consumerGroup` (TOOLS_CONSUMER): the group in the pull requests. No offset is committed on the broker.
    - `tls` (`false`; `true`, or `insecure` to skip certificate verification), `tlsCaFile`, `tlsCertFile`, `tlsKeyFile`.
    - `timeoutMs` (10000): timeout of a request. `pullsInFlight` (64): pulls in flight per task.

    The query fails if a queue cannot be read, or does not return every message of its range. Filters on `broker`,
    `queue_id` and `queue_offset` are pushed down if `spark.sql.python.filterPushdown.enabled` is true.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """Validate the options; raises ValueError."""
        super().__init__(options)
        self._options = Options.parse(options)

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rocketmq"

    def schema(self) -> str:
        """The fixed schema: the columns of `raw.trace_messages` that come from the broker."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader with these options; the schema is always the fixed one."""
        return RocketMQReader(self._options)


class RocketMQReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Accept the filters on broker, queue and offset; yield the others, which Spark applies itself."""
        for each in filters:
            if supported(each):
                self._filters.append(each)
            else:
                yield each

    def partitions(self) -> list[OffsetRange]:  # type: ignore[override]
        """The ranges to read, one per task; raises as `plan`."""
        with self._options.client() as client:
            ranges = plan(client, self._options, self._filters)
        return split(ranges, self._options.max_offsets_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Every message of the partition's range, as Arrow batches; raises as `Client.read`."""
        if not isinstance(partition, OffsetRange):  # Spark reads an empty plan as one partition of None
            return
        options, queue = self._options, partition.queue
        origin = Origin(options.cluster, queue.topic, queue.broker, queue.queue_id, partition.epoch)
        with options.client() as client:
            yield from record_batches(client.read(queue, partition.start, partition.end), origin)


def plan(client: Client, options: Options, filters: Sequence[Filter]) -> list[OffsetRange]:
    """One range per queue, from the route and the options.

    With maps for start and end, the ranges are those of the maps: the brokers' offsets are not requested.

    Raises:
        QueueNotFoundError: a map names a queue that is not in the route.
        PermissionDeniedError: a queue is not readable.
        OffsetMovedError: the start is after the end.
        RocketMQError: a broker cannot be reached or rejects a request for offsets.
    """
    queues = {(queue.broker, queue.queue_id): queue for queue in client.queues(options.topic)}
    wanted = set(queues)
    for bound in (options.starting, options.ending):
        if isinstance(bound, dict):
            for broker, queue_id in queues_of(bound):
                if (broker, queue_id) not in queues:
                    raise QueueNotFoundError(
                        f"{client.location(Queue(options.topic, broker, queue_id, ()))}: the route has no such queue; it "
                        f"has {', '.join(f'{b}/{q}' for b, q in sorted(queues)) or 'none'}. Is the broker down and "
                        "no longer in the route?"
                    )
            wanted &= set(queues_of(bound))
    ranges = []
    for key in sorted(wanted):
        queue = queues[key]
        if not may_match(filters, queue):
            continue
        if not queue.readable:
            raise PermissionDeniedError(
                f"{client.location(queue)}: the topic's perm on this broker does not permit reading: set perm 6 or 4, or "
                "exclude the queue by maps of offsets"
            )
        # The start first: offsets only rise, so an end that is requested later is not below it.
        start = _offset(client, queue, options.starting)
        end = _offset(client, queue, options.ending)
        if start > end:
            raise OffsetMovedError(
                f"{client.location(queue)}: the start {start} (startingOffsets) is above the end {end} (endingOffsets). "
                "Either the options are swapped, or these offsets have expired, or the topic was deleted and recreated "
                "since the start was recorded",
                end,
                start,
            )
        epoch = options.epochs.get(queue.broker, {}).get(queue.queue_id, 0)
        ranges.append(narrow(OffsetRange(queue, start, end, epoch), filters))
    return [each for each in ranges if each.start < each.end]


def _offset(client: Client, queue: Queue, bound: Bound) -> int:
    if isinstance(bound, dict):
        return bound[queue.broker][queue.queue_id]
    if isinstance(bound, Timestamp):
        return client.offset_at(queue, bound.ms)
    return client.min_offset(queue) if bound == "earliest" else client.max_offset(queue)


def split(ranges: Sequence[OffsetRange], max_offsets: int) -> list[OffsetRange]:
    """Split the ranges into ranges of at most `max_offsets` messages."""
    pieces = []
    for each in ranges:
        length = each.end - each.start
        count = -(-length // max_offsets)
        for index in range(count):
            start, end = each.start + length * index // count, each.start + length * (index + 1) // count
            pieces.append(replace(each, start=start, end=end))
    return pieces


def supported(each: Filter) -> bool:
    """Whether the plan applies the filter completely, so that Spark need not apply it again."""
    if isinstance(each, EqualTo | IsNotNull):
        return each.attribute in (_BROKER, _QUEUE_ID, _OFFSET)
    if isinstance(each, In):
        return each.attribute in (_BROKER, _QUEUE_ID)
    return isinstance(each, _COMPARISONS) and each.attribute == _OFFSET


def may_match(filters: Sequence[Filter], queue: Queue) -> bool:
    """Whether a message of the queue can match the filters on broker and queue_id."""
    values: dict[tuple[str, ...], object] = {_BROKER: queue.broker, _QUEUE_ID: queue.queue_id}
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
        if not isinstance(condition, EqualTo | _COMPARISONS) or condition.attribute != _OFFSET:
            continue
        value = int(condition.value)
        if isinstance(condition, EqualTo):
            start, end = max(start, value), min(end, value + 1)
        elif isinstance(condition, GreaterThan | GreaterThanOrEqual):
            start = max(start, value + isinstance(condition, GreaterThan))
        else:
            end = min(end, value + isinstance(condition, LessThanOrEqual))
    return replace(each, start=min(start, max(end, 0)), end=max(end, 0))
