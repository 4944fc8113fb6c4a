"""A day of one cluster in trace records: every kind of message that the marts distinguish.

The watermark is noon + 24 h less nothing; limits are the defaults (grace and consume timeout 15 min,
maximum delay 2 h). Consumer group `g` consumes topic `orders` all day.
"""

from __future__ import annotations

import random
from datetime import timedelta

from pyspark.sql import Row, SparkSession

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import Position, Queue
from tests.dbt.events import NOON, Events, at

HOUR = 3600
DAY = 24 * HOUR
COSTS = [*range(0, 140), *(int(1.17**n) for n in range(30, 100)), 3_000_000_000]


def costs(hour: int) -> list[int]:
    """Durations of the sends to topic `latency` in that hour: small, middle and huge, in no order."""
    drawn = random.Random(hour)
    return [drawn.choice(COSTS) for _ in range(400)]


# Below 20 minutes, so that what is sent in the first minutes of an hour also begins in it.
WAITS = [cost for cost in COSTS if cost < 1_200_000]


def drawn(what: str, hour: int) -> list[int]:
    """Queue waits (`wait`) and durations of listener calls (`cost`) of group `stopwatch` in that hour, ms, in no order."""
    dice = random.Random(f"{what} {hour}")
    return [dice.choice(WAITS) for _ in range(300)]


def whole_day() -> Events:
    """All records of the day."""
    events = Events()
    for chapter in (warm_up, consumption, orphans, latencies, transactions, stopwatch, oddities):
        chapter(events)
    return events


def write_events(spark: SparkSession) -> None:
    other = Queue("silent", "RMQ_SYS_TRACE_TOPIC", "broker-x", 0)
    whole_day().write(spark, DAY, complete_to={other: Position(0, complete_to=0)})
    record_gap(spark)


def record_gap(spark: SparkSession) -> None:
    gap = Row(*tables.INGEST_GAPS.column_names)(
        *("test", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0, 0, 500, 600),
        *(NOON + timedelta(hours=9), NOON + timedelta(hours=9, minutes=5), NOON + timedelta(hours=10), "run"),
    )
    spark.createDataFrame([gap], tables.INGEST_GAPS.schema).writeTo(tables.INGEST_GAPS.full_name).append()


def warm_up(events: Events) -> None:
    """From here on g is expected on topic orders; this message itself expects no one."""
    events.pub("first", 0)
    events.attempt("first", "q-first", 1)


def consumption(events: Events) -> None:
    events.pub("ok", HOUR)
    events.attempt("ok", "q-ok", HOUR + 1)

    events.pub("second_time", HOUR + 10)
    events.attempt("second_time", "q-st-0", HOUR + 11, "failed")
    events.attempt("second_time", "q-st-1", HOUR + 21, retry=1)

    for code in ("exception", "returned_null", "failed", "timeout"):
        events.pub(f"ends_{code}", HOUR + 20)
        events.attempt(f"ends_{code}", f"q-{code}", HOUR + 21, code)

    events.pub("gone", HOUR + 30)
    events.begin("gone", "q-gone", HOUR + 31)

    events.pub("open", DAY - 20 * 60)
    events.begin("open", "q-open", DAY - 20 * 60 + 1)

    events.pub("last_try", DAY - HOUR)
    events.attempt("last_try", "q-last", DAY - HOUR + 1, "failed", retry=16)
    events.pub("in_retry", DAY - HOUR)
    events.attempt("in_retry", "q-retry", DAY - HOUR + 1, "failed", retry=3)

    # One listener call with two messages; the ends come first, in one trace message that is stored twice, with neither
    # time nor group.
    for _ in range(2):
        stored = len(events.rows)
        for index, msg_id in enumerate(("pair-1", "pair-2")):
            events.end(msg_id, "q-pair", None, queue_offset=stored, record_index=index)
    for msg_id in ("pair-1", "pair-2"):
        events.pub(msg_id, HOUR + 40)
        events.begin(msg_id, "q-pair", HOUR + 41, "ns%g")

    # Every client of this group gets every message.
    for number in range(3):
        events.pub(f"to_all-{number}", HOUR + 50, "news")
        for host in ("10.0.0.1:1", "10.0.0.2:1"):
            events.attempt(
                f"to_all-{number}", f"q-all-{number}-{host}", HOUR + 51, group="everyone", born_host=host
            )


def orphans(events: Events) -> None:
    events.pub("lost", 2 * HOUR)
    events.pub("lost_in_gap", 9 * HOUR + 60)
    events.pub("rolled_back", 2 * HOUR, msg_type="half")
    events.add(
        "EndTransaction",
        2 * HOUR + 1,
        msg_id="rolled_back",
        topic="orders",
        transaction_state="ROLLBACK_MESSAGE",
    )
    events.pub("recalled", 2 * HOUR, msg_type="delay")
    events.add("Recall", 2 * HOUR + 1, msg_id="recalled", topic="orders", success=True)
    events.pub("half_open", 2 * HOUR, msg_type="half")
    events.add("EndTransaction", 2 * HOUR + 1, msg_id="half_open", topic="orders", transaction_state="UNKNOW")
    events.pub("committed", 2 * HOUR, msg_type="half")
    events.add(
        "EndTransaction", 2 * HOUR + 1, msg_id="committed", topic="orders", transaction_state="COMMIT_MESSAGE"
    )
    events.pub("delayed", DAY - HOUR, msg_type="delay")
    events.pub("batch-1,batch-2,batch-3", 2 * HOUR)
    events.pub("just_sent", DAY - 60)
    events.pub("unwatched", 2 * HOUR, "audit")


def transactions(events: Events) -> None:
    """Half messages to a topic that no group consumes, one of each state."""

    def half(msg_id: str, seconds: float = 2 * HOUR, msg_type: str = "half") -> None:
        events.pub(msg_id, seconds, "payments", group_name="payers", msg_type=msg_type)

    def ended(msg_id: str, seconds: float, state: str, check: bool = False) -> None:
        events.add(
            "EndTransaction",
            seconds,
            msg_id=msg_id,
            topic="payments",
            group_name="payers",
            transaction_state=state,
            from_transaction_check=check,
            layout="end_transaction_13",
        )

    half("paid")
    ended("paid", 2 * HOUR + 1, "UNKNOW")
    ended("paid", 2 * HOUR + 60, "UNKNOW", check=True)
    for _ in range(2):  # the same record, stored twice
        ended("paid", 2 * HOUR + 120, "COMMIT_MESSAGE", check=True)
    half("refused", msg_type="commit")  # 5.0.0 numbers the types otherwise
    ended("refused", 2 * HOUR + 1, "ROLLBACK_MESSAGE")
    half("forgotten")
    half("asked", DAY - 60)
    ended("half_not_seen", 3 * HOUR, "COMMIT_MESSAGE")


def latencies(events: Events) -> None:
    for hour in (3, 4):
        for number, cost in enumerate(costs(hour)):
            events.pub(f"l-{hour}-{number}", hour * HOUR + number, "latency", cost)
    events.pub("set_back", 3 * HOUR, "latency", -7)


def stopwatch(events: Events) -> None:
    """Group `stopwatch` measures: topic `timed` by drawn durations, topic `timed_odd` what is no plain duration."""
    for hour in (5, 6):
        for number, (wait, cost) in enumerate(zip(drawn("wait", hour), drawn("cost", hour), strict=True)):
            msg_id, sent = f"t-{hour}-{number}", hour * HOUR + number
            begun = sent + wait / 1000
            events.pub(msg_id, sent, "timed")
            events.begin(msg_id, f"q-{msg_id}", begun, "stopwatch")
            events.end(msg_id, f"q-{msg_id}", begun + cost / 1000, group_name="stopwatch")

    # The clock of this producer is half a minute ahead: consumed before it was published, by the clients' times.
    events.pub("ahead", 5 * HOUR + 30, "timed_odd", born_host="10.0.0.7:1", store_time=at(5 * HOUR + 1))
    events.attempt("ahead", "q-ahead", 5 * HOUR + 2, group="stopwatch")

    # Handed out a second time without a retry being counted.
    events.pub("again", 5 * HOUR, "timed_odd")
    events.attempt("again", "q-again-1", 5 * HOUR + 1, group="stopwatch")
    events.attempt("again", "q-again-2", 5 * HOUR + 5, group="stopwatch")

    # The clock was set back while the listener ran.
    events.pub("backwards", 5 * HOUR, "timed_odd")
    events.begin("backwards", "q-backwards", 5 * HOUR + 10, "stopwatch")
    events.end("backwards", "q-backwards", 5 * HOUR + 8, group_name="stopwatch")

    # One listener call of two seconds with two messages, of which the client states a share.
    for msg_id in ("both-1", "both-2"):
        events.pub(msg_id, 5 * HOUR, "timed_odd")
        events.begin(msg_id, "q-both", 5 * HOUR + 1, "stopwatch")
        events.end(msg_id, "q-both", 5 * HOUR + 3, group_name="stopwatch", cost_ms=1000.0)


def oddities(events: Events) -> None:
    events.pub("resent", HOUR, "latency_odd", offset_msg_id="broker-a-1")
    events.pub("resent", HOUR + 3, "latency_odd", offset_msg_id="broker-b-1", success=False)
    for _ in range(2):  # the same record, stored twice
        events.pub("stored_twice", HOUR, "latency_odd")
    events.pub(
        "suspect", -400 * DAY, "latency_odd", event_time_suspect=True, store_time=NOON + timedelta(hours=5)
    )
    events.attempt("unknown_pub", "q-unknown", HOUR)
    events.end("nameless", "q-nameless", HOUR)
    # A batch of the Go client's: its messages have no ids but the broker's, and the time is that of the end.
    events.pub("", HOUR + 1, "go_batches", cost=1001, offset_msg_id="o-go-1,o-go-2")
    for msg_id in ("o-go-1", "o-go-2"):
        events.attempt(msg_id, f"q-{msg_id}", HOUR + 2, group="gophers")
    events.pub("later_run", HOUR, "latency_odd", change_seq=2)
    events.pub("no_status", HOUR, "old", success=None, layout="pub_12", offset_msg_id=None)
    events.add("Invalid", None, invalid_reason="no layout", raw=bytearray(b"x"))
    for text in ("Pub\x01x" + "é" * 150, "Pub\x01second"):
        events.add("Invalid", None, invalid_reason="field_count:11", raw=bytearray(text.encode()))
    events.add("Invalid", None, invalid_reason="unknown_type", raw=bytearray(b"Ack\x01\xff"))
