"""`spark.read.format("rocketmq")`: a topic's messages as a DataFrame, exact offsets in, exact rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.rocketmq import ranges
from spark_jobs.rocketmq.batches import SCHEMA, Origin, record_batches
from spark_jobs.rocketmq.options import Options
from spark_jobs.rocketmq.ranges import OffsetRange


class RocketMQDataSource(DataSource):
    """Batch reads of one topic of one cluster. Register it with `spark.dataSource.register(RocketMQDataSource)`.

    Options (all strings, names without regard to case; an unknown one is an error):

    - `namesrv`: nameservers `host:port`, separated by `;`. Needed.
    - `topic`: the topic. Needed. `namespace`: of the instance that it belongs to; default none.
    - `cluster`: text for the column `cluster`; default empty.
    - `startingOffsets`, `endingOffsets`: `earliest`, `latest`, a time (ms since 1970, or ISO 8601 in UTC; the first
      message stored at or after it) or a JSON map `{"<broker>": {"<queue id>": <offset>}}`, start included and end
      not. Defaults `earliest` and `latest`. Where both are maps, the brokers are not asked what they have.
    - `minPartitions` (1), `maxOffsetsPerPartition` (50000): how finely the ranges are cut.
    - `maxInflatedBytes` (33554432): a body that inflates to more stays as it is stored, with `body_error`.
    - `epochs`: JSON map as above with the number for the column `epoch`; default 0.
    - `credentialsEnv`: prefix of the environment variables `<prefix>_ACCESS_KEY`, `<prefix>_SECRET_KEY` and, if there
      is one, `<prefix>_SECURITY_TOKEN`, on the driver and on every executor.
    - `consumerGroup` (TOOLS_CONSUMER): the group that pulls name. No offset is ever committed.
    - `tls` (`false`; `true`, or `insecure` without a check of certificates), `tlsCaFile`, `tlsCertFile`, `tlsKeyFile`.
    - `timeoutMs` (10000): how long to wait for one answer. `pullsInFlight` (64): pulls on the way in one task.

    A queue that cannot be asked, or does not give every message of its range, fails the query. Filters on `broker`,
    `queue_id` and `queue_offset` narrow what is read, if `spark.sql.python.filterPushdown.enabled` is true.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """Check the options; raises ValueError."""
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
        """A reader of the checked options; the schema is always the fixed one."""
        return RocketMQReader(self._options)


class RocketMQReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take the filters on place; yield the others, which Spark applies itself."""
        for each in filters:
            if ranges.supported(each):
                self._filters.append(each)
            else:
                yield each

    def partitions(self) -> list[OffsetRange]:  # type: ignore[override]
        """The sub-ranges to read, one a task; errors as of `ranges.plan`."""
        options = self._options
        with options.client() as client:
            planned = ranges.plan(client, options, self._filters)
        return ranges.split(planned, options.max_offsets_per_partition, options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Every message of the partition's range, as Arrow batches; errors as of `Client.read`."""
        if not isinstance(partition, OffsetRange):  # Spark reads an empty plan as one partition of None
            return
        options, queue = self._options, partition.queue
        origin = Origin(options.cluster, queue.topic, queue.broker, queue.queue_id, partition.epoch)
        with options.client() as client:
            yield from record_batches(client.read(queue, partition.start, partition.end), origin)
