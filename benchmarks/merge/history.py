"""The tables that the merge benchmark starts from, as snapshots of one: 2 M and 20 M records in the batch's day.

The batch lies in raw: a tenth of its messages is merged already, as after a crash, and one in a hundred is of another
queue and lies ten days back, as after a broker was away. Ten days back the table has records, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.lake import tables
from spark_jobs.lake.catalog import head
from spark_jobs.lake.offsets import Position, Positions, Queue, Range
from spark_jobs.settings import Settings
from spark_jobs.trace.merge import rows_of

RECORDS_A_MESSAGE = 15
CHUNK = 1_000_000 // RECORDS_A_MESSAGE  # messages; a commit of about a million records
CHUNKS, FEW = 20, 2
DAY = datetime(2026, 11, 20, tzinfo=UTC)
BACK = timedelta(days=10)

CURRENT = Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0)
LATE = Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-b", 0)


@dataclass(frozen=True)
class History:
    """Snapshots of events to start a merge from, and the ranges of raw that it merges.

    Attributes:
        few: with 2 M records in the batch's day.
        many: with 20 M.
        ranges: the batch.
        positions: of raw, after the batch.
        records: in the batch.
        missing: records of the batch that the table has not.
    """

    few: int
    many: int
    ranges: list[Range]
    positions: Positions
    records: int
    missing: int


def build(spark: SparkSession, settings: Settings) -> History:
    """Write the batch to raw and the history to events."""
    tables.ensure(spark)
    end = CHUNKS * CHUNK
    late = CHUNK // 100
    first = end - CHUNK // 10
    batch = _messages(spark, CURRENT, first, first + CHUNK - late, DAY)
    behind = _messages(spark, LATE, 5 * CHUNK, 5 * CHUNK + late, DAY - BACK)
    _append(batch.union(behind), tables.RAW)

    _append(
        rows_of(_messages(spark, LATE, 4 * CHUNK, 5 * CHUNK, DAY - BACK), settings.limits, 1), tables.EVENTS
    )
    few = 0
    # The newest first, so that the snapshot with few has those that the batch meets again.
    for number in range(CHUNKS - 1, -1, -1):
        _append(
            rows_of(_messages(spark, CURRENT, number * CHUNK, (number + 1) * CHUNK, DAY), settings.limits, 1),
            tables.EVENTS,
        )
        if number == CHUNKS - FEW:
            few = head(settings, tables.EVENTS) or 0
    ranges = [
        Range(CURRENT, 0, first, first + CHUNK - late),
        Range(LATE, 0, 5 * CHUNK, 5 * CHUNK + late),
    ]
    positions = {each.queue: Position(next=each.end) for each in ranges}
    return History(
        few,
        head(settings, tables.EVENTS) or 0,
        ranges,
        positions,
        CHUNK * RECORDS_A_MESSAGE,
        (CHUNK - CHUNK // 10) * RECORDS_A_MESSAGE,
    )


def _append(rows: DataFrame, table: tables.Table) -> None:
    rows.select(*table.column_names).writeTo(table.full_name).append()


def _messages(spark: SparkSession, queue: Queue, start: int, end: int, day: datetime) -> DataFrame:
    """Messages of one queue at offsets [start, end), of one day, with bodies that a Java client writes."""
    n, time = F.col("id"), F.lit(int(day.timestamp() * 1000)) + F.col("id") % 80_000_000
    records = []
    for index in range(RECORDS_A_MESSAGE // 3):
        msg_id = F.upper(F.md5(F.concat_ws("-", F.lit(queue.broker), n, F.lit(index))))
        request_id = F.upper(F.md5(F.concat_ws("-", F.lit("r"), n, F.lit(index))))
        at = (time - 1000 * index).cast("string")
        fields = (
            (
                "Pub",
                at,
                "DefaultRegion",
                "order-producer",
                "orders",
                msg_id,
                "TagA",
                "order-1",
                "10.20.0.1:10911",
            )
            + ("512", "3", "0", msg_id, "true"),
            ("SubBefore", at, "DefaultRegion", "stock-service", request_id, msg_id, "0", "order-1"),
            ("SubAfter", request_id, msg_id, "7", "true", "order-1", "0", at, "stock-service"),
        )
        for record in fields:
            text = [F.lit(field) if isinstance(field, str) else field for field in record]
            records.append(F.concat(F.concat_ws("\x01", *text), F.lit("\x02")))
    values = {
        "cluster": F.lit(queue.cluster),
        "trace_topic": F.lit(queue.trace_topic),
        "broker": F.lit(queue.broker),
        "queue_id": F.lit(queue.queue_id),
        "epoch": F.lit(0),
        "queue_offset": n,
        "store_time": F.timestamp_millis(time),
        "born_host": F.lit("10.30.0.1:5"),
        "body": F.concat(*records).cast("binary"),
    }
    return spark.range(start, end, numPartitions=2).select(
        *[values.get(c.name, F.lit(None)).cast(c.type).alias(c.name) for c in tables.RAW.columns]
    )
