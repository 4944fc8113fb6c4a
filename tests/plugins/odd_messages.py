"""Messages that only some tables of the lake know, or that differ from others in what a look-up compares."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from spark_jobs.lookup.identifiers import identifier_hash
from tests.plugins import served
from tests.plugins.served import CLUSTER, HOUR, Rows, consumed

GO = "0A000001000700000000000a00bf0001"
UPPER = "0A000001000700C0FFEE00AB000A00BF"
DAY = timedelta(days=1)


def record(record_type: str, *identifiers: str, hour: datetime = HOUR, **columns: Any) -> Rows:
    """A record that no fact has, and its hours in the index."""
    time = hour + timedelta(minutes=5)
    row = {"cluster": CLUSTER, "record_type": record_type, "record_index": 0, "store_time": time}
    place = {"trace_topic": "T", "broker": "b", "queue_id": 0, "epoch": 0, "event_time": time}
    place["queue_offset"] = abs(identifier_hash(record_type, "".join(identifiers)))
    return {
        "events.trace_records": [row | place | columns],
        "intermediate.int_identifier_hours": [
            {"identifier_hash": identifier_hash(CLUSTER, each), "hour": hour} for each in identifiers
        ],
    }


def of_other_cluster(rows: Rows, cluster: str, *identifiers: str) -> Rows:
    changed = {
        name: [row | {"cluster": cluster} if "cluster" in row else row for row in found]
        for name, found in rows.items()
    }
    index = [{"identifier_hash": identifier_hash(cluster, each), "hour": HOUR} for each in identifiers]
    return changed | {"intermediate.int_identifier_hours": index}


def retried() -> Rows:
    """A message whose second attempt has no begin, and one more of the same call."""
    rows = consumed("no-begin")
    second = rows["marts.fct_consume_attempts"][1]
    rows["marts.fct_consume_attempts"][1] = second | {"begun_at": None, "has_begin": False}
    return rows


def sent_by_nobody(msg_id: str, keys: str) -> Rows:
    """A message whose producer group is unknown, and the percentiles of such sends."""
    rows = consumed(msg_id, keys=keys)
    for name in ("marts.fct_messages", "marts.fct_sends"):
        rows[name][0]["producer_group"] = None
    usual = {
        "cluster": CLUSTER,
        "topic": "orders",
        "hour": HOUR,
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "latency_count": 3,
    }
    return rows | {"marts.send_latency": [usual]}


def of_no_topic() -> Rows:
    """A message that was consumed, and of which no send is known."""
    rows = consumed("nameless", group="of-nameless")
    for row in (
        *rows["marts.fct_messages"],
        *rows["marts.fct_deliveries"],
        *rows["marts.fct_consume_attempts"],
    ):
        row["topic"] = None
    return rows | {"marts.fct_sends": []}


def in_retry_topic() -> Rows:
    rows = consumed("sent-again")
    rows["marts.fct_sends"][0]["topic_kind"] = "retry"
    return {name: rows[name] for name in ("marts.fct_sends", "intermediate.int_identifier_hours")}


def in_two_topics() -> Rows:
    """A message in two topics; only the group of the first attempted it, and the later send is to the other."""
    first, second = consumed("twice", topic="zebra", group="only-zebra"), consumed("twice", topic="apple")
    later = second["marts.fct_sends"][0]["sent_at"] + timedelta(minutes=30)
    second["marts.fct_sends"][0] |= {"sent_at": later, "event_time": later}
    none: Rows = {
        "marts.fct_deliveries": [],
        "marts.fct_consume_attempts": [],
        "intermediate.int_identifier_hours": [],
    }
    return served.together(first, second | none)


def batch() -> Rows:
    rows = [consumed(f"batch-{number}") for number in range(4)]
    for number, each in enumerate(rows):
        each["marts.fct_sends"][0] |= {"batch_id": "batch-0", "batch_size": 4, "batch_index": number}
    return served.together(*rows)


def consumed_late() -> Rows:
    """A message whose group began with it two days later, which is after the newest watermark and the end of the search."""
    rows = consumed("late", group="late-group")
    rows["marts.fct_deliveries"][0]["hour"] = HOUR + timedelta(hours=1)
    for name in ("fct_messages", "fct_sends"):
        rows[f"marts.{name}"][0]["hour"] = HOUR - 30 * DAY
    rows["marts.fct_messages"][0]["published_at"] = HOUR - 30 * DAY
    return rows


def early() -> Rows:
    """A message that was consumed, by the clock of the client, in the hour before it was published."""
    rows = consumed("early", group="early-group")
    rows["marts.fct_deliveries"][0]["hour"] = HOUR - timedelta(hours=1)
    return rows


def world() -> Rows:
    no_events = consumed("expired", keys="expired-key") | {"events.trace_records": []}
    end = record(
        "SubAfter",
        "shared",
        hour=HOUR + timedelta(hours=1),
        msg_id="only-after",
        keys="x shared",
        topic="ns%t",
    )
    spaced = consumed("tabbed", keys="tab\tbed  other")
    spaced["intermediate.int_identifier_hours"].append(
        {"identifier_hash": identifier_hash(CLUSTER, "tab\tbed"), "hour": HOUR}
    )
    return served.together(
        record(
            "EndTransaction", "M1", "T1", "ktx", msg_id="M1", transaction_id="T1", keys="ktx", topic="orders"
        )
        | {},
        record("Recall", "R1", msg_id="R1", success=False),
        record("EndTransaction", "T2", msg_id="null", transaction_id="T2"),
        record("EndTransaction", "T2", msg_id="", transaction_id="T2"),
        record("SubBefore", "comma", msg_id="a,b", keys="comma"),
        record("Pub", "go-key", msg_id="null", offset_msg_id="o1,o2", keys="go-key"),
        sent_by_nobody("plain", keys="shared"),
        end,
        in_retry_topic(),
        in_two_topics(),
        retried(),
        consumed(GO),
        consumed(UPPER),
        no_events,
        batch(),
        consumed_late(),
        early(),
        spaced,
        consumed("long-key", keys="k" * 1500),
        consumed("both"),
        of_no_topic(),
        of_other_cluster(consumed("both"), "other", "both"),
    )
