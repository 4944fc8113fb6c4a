"""A few messages in real Iceberg tables with the columns of the real ones, and the serving file over them; no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import yaml
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform

from spark_jobs.lake import tables
from spark_jobs.lookup.identifiers import identifier_hash
from spark_jobs.mart_build.inputs import CHANGE_SEQ_TO, DEFINITIONS, PUBLICATION, WATERMARKS
from spark_jobs.serving.build import build
from spark_jobs.settings import PROJECT, Serving
from spark_jobs.trace.layouts import FIELD_SEPARATOR, RECORD_SEPARATOR

if TYPE_CHECKING:
    from tests.plugins.conftest import Warehouse

CLUSTER = "test"
MARKUP = '"><script>alert(1)</script>'
# Ids of messages that clients may have set.
HOSTILE = [
    MARKUP,
    "' or 1=1 --",
    "a/records",
    "../..",
    "..",
    ".",
    "%2F%00",
    "a?b#c",
    "a b",
    "\\",
    "é名😀",
    "$text",
    "\u202eoloc",
]
PLAIN, ORPHAN = "0A000001000700C0FFEE0000000A0001", "lost"
HOUR = datetime(2026, 11, 20, 12, tzinfo=UTC)
_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "array<string>": pa.list_(pa.string()),
    "map<int,bigint>": pa.map_(pa.int32(), pa.int64()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
_MODELS = [
    *(f"marts.{name}" for name in ("fct_messages", "fct_sends", "fct_consume_attempts", "fct_deliveries")),
    *(f"marts.{name}" for name in ("fct_transactions", "orphaned_messages", "clock_skew")),
    *(f"marts.{name}" for name in ("dim_topics", "dim_consumer_groups")),
    *(f"marts.{name}" for name in ("send_latency", "queue_wait", "consume_latency", "end_to_end_latency")),
    *("marts.invalid_records", "intermediate.int_identifier_hours"),
    *("marts.slo_burn", "marts.topic_consumer_groups"),
    *(f"marts.{name}" for name in ("consumer_group_success", "orphan_rate", "trace_completeness")),
    *(f"marts.{name}_daily" for name in ("consumer_group_success", "orphan_rate", "trace_completeness")),
    *(f"marts.{name}_daily" for name in ("send_latency", "queue_wait", "consume_latency")),
    *("marts.end_to_end_latency_daily", "marts.trace_coverage", "marts.trace_coverage_daily"),
]
FACTS = [name for name in _MODELS if name.startswith("marts.fct_")]
Rows = dict[str, list[dict[str, Any]]]


def serve(
    warehouse: Warehouse, rows: Rows, clusters: Iterable[str] = (CLUSTER,), copied: bool = True
) -> None:
    """Commit rows to the tables and build the serving file; columns that a row lacks are NULL.

    Args:
        warehouse: has none of the tables yet.
        rows: by table.
        clusters: that have a watermark.
        copied: whether the marts are copied; else their files are read in place.
    """
    watermark = f"{HOUR + timedelta(hours=2):%Y-%m-%d %H:%M:%S}.000"
    published = {
        CHANGE_SEQ_TO: "1",
        WATERMARKS: json.dumps(dict.fromkeys(clusters, watermark)),
        DEFINITIONS: "d",
        PUBLICATION: "publication-1",
    }
    events = {"trace.change_seq": "1"}
    for name, schema in _schemas():
        found = pa.Table.from_pylist([_complete(row, schema) for row in rows.get(name, [])], schema=schema)
        if partition := _partition(name, copied):
            warehouse.catalog.create_namespace_if_not_exists(name.split(".")[0])
            with warehouse.catalog.create_table(name, schema).update_spec() as spec:
                spec.add_field(partition.column, partition.transform, "time")
        warehouse.append(name, found, **(published if name.startswith("marts.") else events))
    serving = warehouse.settings.serving if copied else Serving(copied_rows=0)
    build(warehouse.settings.model_copy(update={"serving": serving}))


class _Partition(NamedTuple):
    column: str
    transform: Transform[Any, Any]


def _partition(name: str, copied: bool) -> _Partition | None:
    """As the real tables have them, where the reader needs it."""
    if name == "events.trace_records":
        return _Partition("store_time", DayTransform())
    return _Partition("hour", IdentityTransform()) if name in FACTS and not copied else None


def world() -> Rows:
    """One message per hostile id, one with hostile names, two of one key, and one that its group has not consumed."""
    return together(
        consumed(PLAIN, keys="order-1 shared"),
        consumed("other", keys="shared"),
        consumed("marked", keys=MARKUP, topic=MARKUP, group=MARKUP, client=MARKUP),
        orphaned(ORPHAN),
        *(consumed(msg_id) for msg_id in HOSTILE),
    )


def consumed(
    msg_id: str, keys: str = "", topic: str = "orders", group: str = "g", client: str = "10.0.0.1@7"
) -> Rows:
    """The rows of a message that the group consumed a second after it was sent, at the second attempt."""
    sent, begun = HOUR + timedelta(minutes=1), HOUR + timedelta(minutes=1, seconds=1)
    message = {"cluster": CLUSTER, "msg_id": msg_id, "topic": topic, "hour": HOUR}
    send = {"sent_at": sent, "cost_ms": 12.0, "offset_msg_id": f"o-{msg_id[:50]}", "topic_kind": "normal"}
    attempts = [
        {"retry_times": 0, "outcome": "exception", "request_id": "r0", "begun_at": begun, "cost_ms": 125.0},
        {"retry_times": 1, "outcome": "success", "request_id": "r1", "cost_ms": 60_000.0}
        | {"begun_at": begun + timedelta(seconds=65)},
    ]
    text = FIELD_SEPARATOR.join(["Pub", "1", "region", "p", topic, msg_id, "tag", keys])
    position = {"cluster": CLUSTER, "trace_topic": "T", "broker": "b", "queue_id": 0, "epoch": 0}
    place = position | {"queue_offset": abs(identifier_hash(CLUSTER, msg_id)), "store_time": sent}
    return {
        "marts.fct_messages": [
            message
            | {"state": "consumed", "is_transactional": False, "is_recalled": False, "is_delayed": False}
            | {"published_at": sent, "producer_group": "p", "consumer_groups": 1, "first_attempt_at": begun}
        ],
        "marts.fct_sends": [
            message
            | send
            | {"keys": keys or None, "batch_size": 1, "batch_index": 0, "copies": 1, "client": client}
            | {"producer_group": "p", "is_send_ok": True, "store_host": "10.0.0.9:10911"}
        ],
        "marts.fct_consume_attempts": [
            message
            | attempt
            | {
                "consumer_group": group,
                "occurred_at": attempt["begun_at"],
                "client": client,
                "has_begin": True,
            }
            | {"has_end": True, "begin_copies": 1, "end_copies": 1, "keys": keys or None}
            | {"ended_at": attempt["begun_at"] + timedelta(milliseconds=attempt["cost_ms"])}
            for attempt in attempts
        ],
        "marts.fct_deliveries": [
            message
            | {"consumer_group": group, "is_broadcast": False, "outcome": "succeeded", "retries": 1}
            | {"attempts": 2, "duplicates": 0, "queue_wait_ms": 1000, "end_to_end_ms": 126_000}
        ],
        "events.trace_records": [
            place
            | {
                "record_type": "Pub",
                "msg_id": msg_id,
                "record_index": 0,
                "offset_msg_id": send["offset_msg_id"],
            }
        ],
        "raw.trace_messages": [place | {"body": (text + RECORD_SEPARATOR).encode()}],
        "intermediate.int_identifier_hours": [
            {"identifier_hash": identifier_hash(CLUSTER, each), "hour": HOUR}
            for each in (msg_id, send["offset_msg_id"], *keys.split())
        ],
    }


def orphaned(msg_id: str, topic: str = "orders", group: str = "g") -> Rows:
    """The rows of a message that the group was expected to consume and has not."""
    rows = consumed(msg_id, topic=topic)
    absent = {"cluster": CLUSTER, "msg_id": msg_id, "topic": topic, "hour": HOUR, "expected_group": group}
    rows["marts.fct_messages"][0]["state"] = "orphaned"
    rows["marts.orphaned_messages"] = [absent | {"cause": "filtered_or_lost", "is_orphan": True}]
    return rows | {"marts.fct_consume_attempts": [], "marts.fct_deliveries": []}


def together(*messages: Rows) -> Rows:
    """The rows of all of them, of which the first send makes the history of the traces."""
    names = dict.fromkeys(name for rows in messages for name in rows)
    seen = {"cluster": CLUSTER, "topic": "orders", "first_seen_at": HOUR}
    return {"marts.dim_topics": [seen]} | {
        name: [row for rows in messages for row in rows.get(name, [])] for name in names
    }


def _schemas() -> Iterator[tuple[str, pa.Schema]]:
    folder = PROJECT / "dbt_project" / "models"
    files = {file.stem: file for file in folder.rglob("*.yml")}
    for name in _MODELS:
        (model,) = yaml.safe_load(files[name.split(".")[1]].read_text())["models"]
        yield name, _schema((column["name"], column["data_type"]) for column in model["columns"])
    for table in (tables.RAW, tables.EVENTS, tables.INGEST_GAPS):
        yield table.name, _schema((column.name, column.type) for column in table.columns)


def _schema(columns: Iterable[tuple[str, str]]) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind.replace(" ", "")]) for name, kind in columns])


def _complete(row: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    assert row.keys() <= set(schema.names), row.keys() - set(schema.names)
    return {name: row.get(name) for name in schema.names}


def policy_of(answer) -> dict[str, str]:
    found = answer.headers["content-security-policy"]
    return dict(part.strip().split(" ", 1) for part in found.split(";"))


def escaped(text: str) -> str:
    return (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&#34;")
        .replace("'", "&#39;")
    )
