"""Raw and events with a day or with ten days of traffic, and the batch that comes next, as snapshots of one lake.

Eight topics, each with a producer group and a consumer group. Of a hundred messages one is never consumed and one fails
first and succeeds ten seconds later. Costs and waits have a heavy tail, up to minutes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, Position, Positions, Queue, to_json
from spark_jobs.lake.publish import commit_with_properties
from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.settings import Settings
from spark_jobs.trace.layouts import BY_NAME, FIELD_SEPARATOR, RECORD_SEPARATOR
from spark_jobs.trace.merge import rows_of

MESSAGES = 5  # in a trace message; their records are 15, more or less
DAY = 1_000_000 // (3 * MESSAGES)  # trace messages a day, which hold a million records
DAYS = 10
BATCH = DAY // 10
LATE = BATCH // 100
LATE_MS = 12 * 3600 * 1000
STEP_MS = 86_400_000 // DAY
START = int(datetime(2026, 11, 11, tzinfo=UTC).timestamp() * 1000)
TOPICS = 8

CURRENT = Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0)
BEHIND = Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-b", 0)


def add_days(spark: SparkSession, settings: Settings, first: int, last: int, change_seq: int) -> None:
    """Append the days [first, last) of the current queue, up to the end of all days as far as the books say."""
    end = DAYS * DAY
    books = {
        CURRENT: Position(next=end, complete_to=START + end * STEP_MS),
        BEHIND: Position(next=0, complete_to=START + end * STEP_MS),
    }
    _append(spark, settings, _messages(spark, CURRENT, first * DAY, last * DAY), books, change_seq)


def add_batch(spark: SparkSession, settings: Settings, change_seq: int) -> None:
    """Append the next tenth of a day; one in a hundred of its messages is of another queue, half a day late."""
    end = DAYS * DAY
    current = _messages(spark, CURRENT, end, end + BATCH - LATE)
    late = _messages(spark, BEHIND, 0, LATE, START + end * STEP_MS - LATE_MS)
    complete_to = START + (end + BATCH) * STEP_MS
    books = {
        CURRENT: Position(next=end + BATCH - LATE, complete_to=complete_to),
        BEHIND: Position(next=LATE, complete_to=complete_to),
    }
    _append(spark, settings, current.union(late), books, change_seq)


def _append(
    spark: SparkSession, settings: Settings, messages: DataFrame, books: Positions, change_seq: int
) -> None:
    raw = messages.select(*RAW.column_names)
    with commit_with_properties(spark, {OFFSETS: to_json(books)}):
        raw.writeTo(RAW.full_name).append()
    with commit_with_properties(spark, {OFFSETS: to_json(books), CHANGE_SEQ: str(change_seq)}):
        rows = rows_of(messages, settings.limits, change_seq).select(*EVENTS.column_names)
        rows.writeTo(EVENTS.full_name).append()


def _messages(spark: SparkSession, queue: Queue, start: int, end: int, since_ms: int = START) -> DataFrame:
    """Trace messages of a queue at the offsets [start, end), one each STEP_MS after `since_ms`."""
    n = F.col("id")
    bodies = [_records(queue, n, index, since_ms) for index in range(MESSAGES)]
    values = {
        **{name: F.lit(getattr(queue, name)) for name in ("cluster", "trace_topic", "broker", "queue_id")},
        "epoch": F.lit(0),
        "queue_offset": n,
        "store_time": F.timestamp_millis(F.lit(since_ms) + n * STEP_MS),
        "born_host": F.lit("10.30.0.1:5"),
        "body": F.concat(*bodies).cast("binary"),
    }
    return spark.range(start, end, numPartitions=8).select(
        *[values.get(c.name, F.lit(None)).cast(c.type).alias(c.name) for c in tables.RAW.columns]
    )


def _records(queue: Queue, n: Column, index: int, since_ms: int) -> Column:
    """The records that the clients write for one message, some seconds after the event."""

    def drawn(what: str, below: int) -> Column:
        return F.pmod(F.xxhash64(F.lit(queue.broker), n, F.lit(index), F.lit(what)), F.lit(below))

    def tail(what: str, least: float) -> Column:
        """Milliseconds: Pareto's law, its shape 0.8; the largest of a million about 30 million times the least: cut."""
        share = (drawn(what, 1_000_000) + 1) / 1_000_000
        return F.least(F.floor(F.lit(least) / F.pow(share, F.lit(1.25))), F.lit(200_000)).cast("bigint")

    number = drawn("topic", TOPICS)
    topic, producers, group = (F.concat(F.lit(name), number) for name in ("topic-", "producers-", "group-"))
    sent = F.lit(since_ms) + n * STEP_MS - 300_000 + STEP_MS * index // MESSAGES
    received = sent + tail("wait", 3)
    msg_id = F.upper(F.md5(F.concat_ws("-", F.lit(queue.broker), n, F.lit(index))))
    fate = drawn("fate", 100)  # 0: never consumed, 1: fails first
    first = F.substring(F.upper(F.md5(F.concat(msg_id, F.lit("1")))), 1, 32)
    again = F.substring(F.upper(F.md5(F.concat(msg_id, F.lit("2")))), 1, 32)
    common = {
        "region": F.lit("DefaultRegion"),
        "topic": topic,
        "msgId": msg_id,
        "tags": F.lit("TagA"),
        "keys": F.concat(F.lit("order-"), n),
        "storeHost": F.lit("10.20.0.1:10911"),
    }
    pub = common | {
        "time": sent,
        "group": producers,
        "bodyLength": F.lit("512"),
        "cost": tail("send", 1),
        "msgType": F.lit("0"),
        "offsetMsgId": msg_id,
        "success": F.lit("true"),
    }

    def attempt(request_id: Column, begin: Column, retry: int, succeeded: Column) -> list[Column]:
        cost = tail(f"consume{retry}", 2)
        values = common | {
            "group": group,
            "requestId": request_id,
            "retryTimes": F.lit(str(retry)),
            "cost": cost,
            "success": succeeded.cast("string"),
            "contextCode": F.when(succeeded, "0").otherwise("4"),
        }
        return [
            _record("sub_before_8", values | {"time": begin}),
            _record("sub_after_9", values | {"time": begin + cost}),
        ]

    once = F.concat(*attempt(first, received, 0, fate != 1))
    twice = F.concat(*attempt(again, received + 10_000, 1, F.lit(True)))
    nothing = F.lit("")
    return F.concat(
        _record("pub_14", pub),
        F.when(fate != 0, once).otherwise(nothing),
        F.when(fate == 1, twice).otherwise(nothing),
    )


def _record(layout: str, values: dict[str, Column]) -> Column:
    """A record on the wire."""
    fields = [values[name].cast("string") for name in BY_NAME[layout].fields]
    text = F.concat_ws(FIELD_SEPARATOR, F.lit(BY_NAME[layout].record_type), *fields)
    return F.concat(text, F.lit(RECORD_SEPARATOR))
