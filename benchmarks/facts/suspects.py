"""Messages on a real broker that the published marts call orphans: what a collection looks up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog

from benchmarks.facts.groups import GROUPS, QUEUES, TOPICS
from spark_jobs.rocketmq.connection import Connection

SEND_MESSAGE = 10


def send(address: str, count: int) -> list[dict[str, Any]]:
    """Send messages to all topics and queues in turn; return topic, msg_id and the broker's id of each."""
    connection = Connection(address, timeout=60)
    try:
        return [_send(connection, number) for number in range(count)]
    finally:
        connection.close()


def _send(connection: Connection, number: int) -> dict[str, Any]:
    topic, msg_id = f"bench-{number % TOPICS:02}", f"{number:032X}"
    fields = {
        "producerGroup": "bench",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": str(QUEUES),
        "queueId": str(number // TOPICS % QUEUES),
        "sysFlag": "0",
        "bornTimestamp": str(int(datetime.now(UTC).timestamp() * 1000)),
        "flag": "0",
        "properties": f"UNIQ_KEY\1{msg_id}\2",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    frame = connection.call(SEND_MESSAGE, fields, b"x" * 100)
    assert frame.code == 0, (frame.code, frame.remark)
    return {"topic": topic, "msg_id": msg_id, "offset_msg_id": frame.fields["msgId"]}


def publish(catalog: Catalog, cluster: str, sent: list[dict[str, Any]]) -> None:
    """Write the marts that name suspects, with the columns that a look-up reads: each message is an orphan of one group."""
    now = datetime.now(UTC)
    common = {"cluster": cluster, "hour": now.replace(minute=0, second=0, microsecond=0)}
    orphans = [
        {
            **common,
            "topic": each["topic"],
            "msg_id": each["msg_id"],
            "expected_group": f"group-{number % GROUPS:03}",
            "tags": None,
            "published_at": now - timedelta(milliseconds=number),
            "store_host": None,
            "cause": "filtered_or_lost",
            "is_orphan": True,
            "next_review_at": None,
        }
        for number, each in enumerate(sent)
    ]
    sends = [{**common, **each, "sent_at": now} for each in sent]
    text, time = pa.string(), pa.timestamp("us", "UTC")
    types = {"hour": time, "published_at": time, "sent_at": time, "next_review_at": time}
    types |= {"is_orphan": pa.bool_(), "is_broadcast": pa.bool_()}
    no_deliveries = ("cluster", "topic", "msg_id", "consumer_group", "published_at", "hour", "outcome")
    for name, columns, rows in (
        ("orphaned_messages", tuple(orphans[0]), orphans),
        ("fct_sends", tuple(sends[0]), sends),
        ("fct_deliveries", (*no_deliveries, "is_broadcast", "next_review_at"), []),
    ):
        schema = pa.schema([(column, types.get(column, text)) for column in columns])
        catalog.create_table(f"marts.{name}", schema).append(pa.Table.from_pylist(rows, schema=schema))
