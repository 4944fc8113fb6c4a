"""The Spark data source `rocketmq`: `spark.read.format("rocketmq")` reads a topic's messages by exact offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.rocketmq.batches import SCHEMA, Origin, record_batches
from spark_jobs.rocketmq.errors import OffsetMovedError, PermissionDeniedError, QueueNotFoundError
from spark_jobs.rocketmq.options import Bound, Options, Reader, queues_of
from spark_jobs.rocketmq.route import MessageQueue


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The input of one Spark task: offsets [start, end) of one queue."""

    queue: MessageQueue
    start: int
    end: int
    epoch: int = 0


class RocketMQDataSource(DataSource):
    """Batch reads of one topic of one cluster. Register it with `spark.dataSource.register(RocketMQDataSource)`.

    Options (all strings, names case-insensitive; an unknown one is an error):

    - `namesrv`: nameservers `host:port`, separated by `;`. Required.
    - `topic`: the topic, with its namespace if it has one (`<namespace>%<topic>`). Required.
    - `cluster`: text for the column `cluster`; default empty.
    - `startingOffsets` (inclusive) and `endingOffsets` (exclusive): `earliest`, `latest` or a JSON map
      `{"<broker>": {"<queue id>": <offset>}}`. Defaults `earliest` and `latest`. With two maps, the offsets are not
      requested from the brokers.
    - `maxOffsetsPerPartition` (50000): maximum number of messages per task.
    - `maxInflatedBytes` (33554432): a body that inflates to more is returned as stored, with `body_error`.
    - `epochs`: JSON map as above with the number for the column `epoch`; default 0.
    - `credentialsEnv`: prefix of the environment variables `<prefix>_ACCESS_KEY`, `<prefix>_SECRET_KEY` and optionally
      `<prefix>_SECURITY_TOKEN`, on the driver and on every executor.
    - `consumerGroup` (TOOLS_CONSUMER): the group in the pull requests. No offset is committed on the broker.
    - `tls` (`false`; `true`, or `insecure` to skip certificate verification), `tlsCaFile`, `tlsCertFile`, `tlsKeyFile`.
    - `timeoutMs` (10000): timeout of a request. `pullsInFlight` (64): pulls in flight per task.
    - `client` (`remoting`; or `rocketmq-client-python`, which pulls through its native library, one pull after the other).

    The query fails if a queue cannot be read, or does not return every message of its range.
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

    def partitions(self) -> list[OffsetRange]:  # type: ignore[override]
        """The ranges to read, one per task; raises the same errors as `ranges_of`."""
        with self._options.open() as client:
            ranges = ranges_of(client, self._options)
        return split(ranges, self._options.max_offsets_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Every message of the partition's range, as Arrow batches; raises the same errors as `Client.read`."""
        if not isinstance(partition, OffsetRange):  # Spark reads an empty plan as one partition of None
            return
        options, queue = self._options, partition.queue
        origin = Origin(options.cluster, queue.topic, queue.broker, queue.queue_id, partition.epoch)
        with options.open() as client:
            yield from record_batches(client.read(queue, partition.start, partition.end), origin)


def ranges_of(client: Reader, options: Options) -> list[OffsetRange]:
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
    for bound in (options.starting_offsets, options.ending_offsets):
        if isinstance(bound, dict):
            for broker, queue_id in queues_of(bound):
                if (broker, queue_id) not in queues:
                    raise QueueNotFoundError(
                        f"{client.location(MessageQueue(options.topic, broker, queue_id, ()))}: the route has no such queue; it "
                        f"has {', '.join(f'{b}/{q}' for b, q in sorted(queues)) or 'none'}. Is the broker down and "
                        "no longer in the route?"
                    )
            wanted &= set(queues_of(bound))
    ranges = []
    for key in sorted(wanted):
        queue = queues[key]
        if not queue.readable:
            raise PermissionDeniedError(
                f"{client.location(queue)}: the topic's perm on this broker does not permit reading: set perm 6 or 4, or "
                "exclude the queue by maps of offsets"
            )
        # The start first: offsets only rise, so an end that is requested later is not below it.
        start = _offset(client, queue, options.starting_offsets)
        end = _offset(client, queue, options.ending_offsets)
        if start > end:
            raise OffsetMovedError(
                f"{client.location(queue)}: the start {start} (startingOffsets) is above the end {end} (endingOffsets). "
                "Either the options are swapped, or these offsets have expired, or the topic was deleted and recreated "
                "since the start was recorded",
                end,
                start,
            )
        epoch = options.epochs.get(queue.broker, {}).get(queue.queue_id, 0)
        if start < end:
            ranges.append(OffsetRange(queue, start, end, epoch))
    return ranges


def _offset(client: Reader, queue: MessageQueue, bound: Bound) -> int:
    if isinstance(bound, dict):
        return bound[queue.broker][queue.queue_id]
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
