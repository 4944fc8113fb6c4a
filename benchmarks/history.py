"""The trace messages that the benchmarks of merge and models start from: generated once, and kept in the cache folder.

Eight topics, each with a producer group and a consumer group. Of a hundred messages one is never consumed and one fails
first and succeeds ten seconds later. Costs and waits have a heavy tail, up to minutes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.lake.jars import cache_folder
from spark_jobs.lake.offsets import Queue
from spark_jobs.lake.tables import RAW
from spark_jobs.trace import layouts
from spark_jobs.trace.layouts import BY_NAME, FIELD_SEPARATOR, RECORD_SEPARATOR
from spark_jobs.trace.pieces import min_records

TOPICS = 8
MESSAGES = 5  # messages in a trace message; each has about three records
CHUNK = 1_000_000 // (3 * MESSAGES)  # trace messages with about a million records
STEP_MS = 86_400_000 // CHUNK  # a chunk is a day of the history
START = 1_794_355_200_000  # 2026-11-11 00:00:00 UTC

CURRENT = Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0)
BEHIND = Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-b", 0)


@dataclass(frozen=True)
class Ids:
    """The identifiers of a message, as columns (string).

    Attributes:
        message: the client's id of the message.
        stored: the broker's id of it.
        keys: its user keys, space-separated.
        first: the request id of the first consume attempt.
        second: that of the second one.
    """

    message: Column
    stored: Column
    keys: Column
    first: Column
    second: Column


Naming = Callable[[Column, int, Column, Column], Ids]
"""From the number of the trace message, the index of the message in it, and when it was sent and received (ms), the ids."""


def chunks(spark: SparkSession, first: int, last: int) -> DataFrame:
    """The chunks [first, last) of the current queue: queue_offset (bigint) and body (string). Missing ones are generated."""
    return spark.read.parquet(*[str(_chunk(spark, number)) for number in range(first, last)])


def bodies(
    spark: SparkSession,
    queue: Queue,
    start: int,
    end: int,
    since_ms: int = START,
    step_ms: int = STEP_MS,
    naming: Naming | None = None,
) -> DataFrame:
    """Bodies at the offsets [start, end) of a queue, one each `step_ms` after `since_ms`, with the columns of `chunks`.

    Without a `naming`, ids are hashes with the time of the send where those of the Java client have it, and the five messages of
    a trace message share a key.
    """
    times = (since_ms, step_ms)
    records = [_records(queue, F.col("id"), i, times, naming or _hashes(queue)) for i in range(MESSAGES)]
    return spark.range(start, end, numPartitions=8).select(
        F.col("id").alias("queue_offset"), F.concat(*records).alias("body")
    )


def stored(bodies: DataFrame, queue: Queue, store_ms: Column) -> DataFrame:
    """The bodies as rows of raw: of this queue, stored by the broker at `store_ms`."""
    values = {
        **{name: F.lit(getattr(queue, name)) for name in ("cluster", "trace_topic", "broker", "queue_id")},
        "epoch": F.lit(0),
        "queue_offset": F.col("queue_offset"),
        "store_time": F.timestamp_millis(store_ms),
        "born_host": F.lit("10.30.0.1:5"),
        "body": F.col("body").cast("binary"),
    }
    rows = bodies.select(*[values.get(c.name, F.lit(None)).cast(c.type).alias(c.name) for c in RAW.columns])
    return rows.withColumn("min_records", min_records())


def _chunk(spark: SparkSession, number: int) -> Path:
    sources = Path(__file__).read_bytes() + Path(layouts.__file__).read_bytes()
    digest = hashlib.sha256(sources).hexdigest()[:12]
    found = cache_folder() / "benchmarks" / f"history-{digest}" / f"{number:02}"
    if not (found / "_SUCCESS").exists():  # Spark writes it last
        generated = bodies(spark, CURRENT, number * CHUNK, (number + 1) * CHUNK)
        generated.write.mode("overwrite").option("compression", "zstd").parquet(str(found))
    return found


def _hashes(queue: Queue) -> Naming:
    def named(n: Column, index: int, sent: Column, received: Column) -> Ids:
        digest = F.md5(F.concat_ws("-", F.lit(queue.broker), n, F.lit(index)))
        in_month = sent - F.unix_millis(F.date_trunc("month", F.timestamp_millis(sent)))
        time = F.lpad(F.hex(in_month), 8, "0")
        msg_id = F.upper(F.concat(F.substring(digest, 1, 20), time, F.substring(digest, 29, 4)))
        first, second = (F.upper(F.md5(F.concat(msg_id, F.lit(attempt)))) for attempt in "12")
        return Ids(msg_id, msg_id, F.concat(F.lit("order-"), n), first, second)

    return named


def _records(queue: Queue, n: Column, index: int, times: tuple[int, int], naming: Naming) -> Column:
    """The records that the clients write for one message, some seconds after the event."""
    since_ms, step_ms = times

    def drawn(what: str, below: int) -> Column:
        return F.pmod(F.xxhash64(F.lit(queue.broker), n, F.lit(index), F.lit(what)), F.lit(below))

    def tail(what: str, least: float) -> Column:
        """Milliseconds: Pareto's law, its shape 0.8; the largest of a million about 30 million times the least: cut."""
        share = (drawn(what, 1_000_000) + 1) / 1_000_000
        return F.least(F.floor(F.lit(least) / F.pow(share, F.lit(1.25))), F.lit(200_000)).cast("bigint")

    number = drawn("topic", TOPICS)
    topic, producers, group = (F.concat(F.lit(name), number) for name in ("topic-", "producers-", "group-"))
    sent = F.lit(since_ms) + n * step_ms - 300_000 + step_ms * index // MESSAGES
    received = sent + tail("wait", 3)
    fate = drawn("fate", 100)  # 0: never consumed, 1: fails first
    ids = naming(n, index, sent, received)
    common = {
        "region": F.lit("DefaultRegion"),
        "topic": topic,
        "msgId": ids.message,
        "tags": F.lit("TagA"),
        "keys": ids.keys,
        "storeHost": F.lit("10.20.0.1:10911"),
    }
    pub = common | {
        "time": sent,
        "group": producers,
        "bodyLength": F.lit("512"),
        "cost": tail("send", 1),
        "msgType": F.lit("0"),
        "offsetMsgId": ids.stored,
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

    once = F.concat(*attempt(ids.first, received, 0, fate != 1))
    twice = F.concat(*attempt(ids.second, received + 10_000, 1, F.lit(True)))
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
