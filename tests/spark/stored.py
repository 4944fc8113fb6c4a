"""Trace messages of one queue, as the extract job stores them."""

from __future__ import annotations

from datetime import UTC, datetime

from spark_jobs.ingest import raw
from spark_jobs.ingest.plan import Plan
from spark_jobs.ingest.step import Gap, Step
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import Position, Queue, Range, read_offsets
from spark_jobs.trace.pieces import min_records

QUEUE = Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0)
STORED = int(datetime(2026, 11, 20, 23, 59, 50, tzinfo=UTC).timestamp() * 1000)
RECORD = "SubAfter\x01rq{0}\x01id{0}\x013\x01true\x01k\x010\x02"


def stored(offset: int) -> int:
    return STORED + offset * 1000


def planned(start: int, end: int, gap: Gap | None = None) -> Plan:
    position = Position(end, 0, stored(end - 1), 100 * end, 7, complete_to=stored(end - 1))
    step = Step(Range(QUEUE, 0, start, end), position, lag=0, gap=gap)
    return Plan(stored(end), [step], {}, {QUEUE: position})


def messages(spark, start: int, end: int, body: str = RECORD * 2):
    rows = [
        (
            *("c", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0, 0, offset),
            datetime.fromtimestamp(stored(offset) / 1000, UTC),
            *(None, "127.0.0.1:1", "127.0.0.1:2", 0, 7, 300, None, None),
            *(bytearray(body.format(offset).encode()), None, None, "run", datetime.now(UTC)),
        )
        for offset in range(start, end)
    ]
    return spark.createDataFrame(rows, tables.RAW.schema).withColumn("min_records", min_records())


def write(spark, settings, rows, plan: Plan, run_id: str) -> raw.Written:
    """What the extract job does with a plan, from the committed offsets of this moment."""
    for attempt in publish.retry_on_conflict():
        with attempt:
            return raw.write(spark, rows, plan, run_id, read_offsets(spark, settings, tables.RAW))
    raise AssertionError("retry_on_conflict ends with a result or an error")
