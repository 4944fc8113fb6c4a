"""A lake with two clusters: all checked data is faulty in `sick` and correct in `well`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import yaml
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table.refs import MAIN_BRANCH

from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import OFFSETS, Position, Queue, to_json
from spark_jobs.lake.tables import Column, Table
from spark_jobs.mart_build.inputs import CHANGE_SEQ_TO, DEFINITIONS, WATERMARKS
from spark_jobs.settings import PROJECT, Settings

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TOPIC = "RMQ_SYS_TRACE_TOPIC"
SICK, WELL = Queue("sick", TOPIC, "broker-a", 0), Queue("well", TOPIC, "broker-a", 0)
MARTS = (
    *("trace_completeness", "clock_skew", "duplicates", "orphan_rate", "invalid_records", "slo_burn"),
    *("topic_consumer_groups", "fct_consume_attempts", "fct_sends", "orphaned_messages"),
    "fct_messages",
    "trace_volume",
)

_COUNTS = ("orphaned", "orphaned_proven", "orphaned_inferred", "orphaned_unknown")
ORPHANS = {"topic": "orders", "expected_group": "g", "judged": 100} | dict.fromkeys(
    [*_COUNTS, "not_returned", "filtered_or_lost", "filtered"], 0
)

TYPES = {
    **{"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64()},
    **{
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "map<int,bigint>": pa.map_(pa.int32(), pa.int64()),
    },
}


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


def ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def mart(name: str) -> Table:
    """A mart's table, from its model's contract."""
    (page,) = (PROJECT / "dbt_project" / "models" / "marts").rglob(f"{name}.yml")
    model = yaml.safe_load(page.read_text())["models"][0]
    columns = tuple(Column(c["name"], c["data_type"], "") for c in model["columns"])
    return Table(f"marts.{name}", "", columns)


def add(
    settings: Settings, table: Table, rows: list[dict[str, Any]], branch: str = MAIN_BRANCH, **properties: str
) -> None:
    """Append rows, NULL where they say nothing, in one commit with the snapshot properties."""
    written = lake(settings).load_table(table.name)
    schema = schema_to_pyarrow(written.schema(), include_field_ids=False)
    written.append(pa.Table.from_pylist(rows, schema=schema), snapshot_properties=properties, branch=branch)


def place(queue: Queue, offset: int) -> dict[str, Any]:
    return {
        **{"cluster": queue.cluster, "trace_topic": queue.trace_topic, "broker": queue.broker},
        **{"queue_id": queue.queue_id, "epoch": 0, "queue_offset": offset},
        "store_time": ago(minutes=60 - offset),
    }


def message(queue: Queue, offset: int) -> dict[str, Any]:
    """Of three records; in every second one they were counted, which no check counts again."""
    counted = {"body": b"", "min_records": 3} if offset % 2 == 0 else {"body": b"a\x02b\x02c\x02"}
    return {**place(queue, offset), **counted, "ingested_at": NOW}


def records(queue: Queue, offset: int) -> list[dict[str, Any]]:
    return [
        {**place(queue, offset), "record_index": n, "record_type": "Pub", "change_seq": 1} for n in range(3)
    ]


def positions(sick: Position, well: Position) -> dict[str, str]:
    return {OFFSETS: to_json({SICK: sick, WELL: well})}


def notify(settings: Settings) -> None:
    """Write both clusters into the tables of the pipeline, and into those of the marts, which are made."""
    _trace(settings)
    for name in MARTS:
        fields = [pa.field(column.name, TYPES[column.type]) for column in mart(name).columns]
        lake(settings).create_table(f"marts.{name}", pa.schema(fields))
    _marts(settings)


def _trace(settings: Settings) -> None:
    late, fresh = Position(12, complete_to=ms(ago(hours=5))), Position(15, complete_to=ms(ago(minutes=2)))
    sick = [message(SICK, offset) for offset in (0, 1, 2, 3, 5, 5, 6, 7, 8, 9)]
    sick[0]["body_error"] = "crc: 1 is not 2"
    # Offsets 5 to 9 are recorded as a gap; 11 has no record, and 12 could not be parsed.
    well = [message(WELL, offset) for offset in (*range(5), *range(10, 15))]
    well[6]["body"] = b""
    well[7]["store_time"] = None
    add(settings, tables.RAW, sick + well, **positions(late, fresh))
    # Of 8 the last record is missing, that of 9 is a duplicate.
    found = [
        *(row for offset in (0, 1, 2, 5, 6, 9) for row in records(SICK, offset)),
        *records(SICK, 8)[:2],
        records(SICK, 9)[2],
        *records(SICK, 14),
        *(row for offset in (*range(5), 10, 12, 13, 14) for row in records(WELL, offset)),
    ]
    for row in found:
        if (row["cluster"], row["queue_offset"]) == ("well", 12):
            row["store_time"] = None
    add(settings, tables.EVENTS, found, **positions(late, fresh))
    gap = {"queue_id": 0, "epoch": 0, "trace_topic": TOPIC, "broker": "broker-a", "run_id": "r"}
    gaps = [
        {**gap, "cluster": "well", "from_offset": 5, "to_offset": 10, "detected_at": ago(days=3)},
        {
            **gap,
            "cluster": "sick",
            "queue_id": 1,
            "from_offset": 0,
            "to_offset": 70,
            "detected_at": ago(hours=1),
        },
    ]
    add(settings, tables.INGEST_GAPS, gaps)


def _marts(settings: Settings) -> None:
    hour = ago(hours=2)
    marks = f'{{"sick":"{ago(hours=9):%F %T}.000","well":"{ago(minutes=5):%F %T}.000"}}'
    sends = [
        {"cluster": cluster, "topic": "orders", "topic_kind": "normal", "sent_at": ago(minutes=40 + n)}
        for cluster in ("sick", "well")
        for n in range(20)
    ]
    add(settings, mart("fct_sends"), sends)
    inputs = {WATERMARKS: marks, CHANGE_SEQ_TO: "1", DEFINITIONS: "those of before"}
    add(settings, mart("fct_messages"), [], **inputs)
    attempts = [
        {"cluster": cluster, "consumer_group": "g", "topic": "orders", "occurred_at": at}
        for cluster, at in (("sick", ago(hours=3)), ("well", ago(minutes=10)))
    ]
    add(settings, mart("fct_consume_attempts"), attempts)
    # `tagged` is as long silent as `sick`, but it does not subscribe to the messages; those for `idle` have just come.
    others = [attempts[0] | {"cluster": "well", "consumer_group": group} for group in ("tagged", "idle")]
    add(settings, mart("fct_consume_attempts"), others)
    groups = [each | {"expected_to": NOW + timedelta(days=6)} for each in (*attempts, *others)]
    groups = [{"last_attempt_at": each.pop("occurred_at"), **each} for each in groups]
    unconsumed = [
        {
            **{"cluster": cluster, "topic": "orders", "expected_group": group, "msg_id": f"{cause}{n}"},
            **{"cause": cause, "evidence": evidence, "counts_in_orphan_rate": cause != "filtered"},
            **{"published_at": at, "hour": at.replace(minute=0)},
        }
        for cluster, group, cause, evidence, number, minutes in (
            ("sick", "g", "dead_letter", "proven", 5, 150),
            ("sick", "g", "not_returned", "inferred", 6, 150),
            ("sick", "g", "filtered_or_lost", "unknown", 8, 150),
            ("sick", "g", "filtered", "proven", 30, 150),
            ("well", "tagged", "filtered", "proven", 20, 150),
            ("well", "idle", "in_backlog", "proven", 3, 40),
            ("well", "g", "in_backlog", "proven", 3, 150),  # it has consumed others since then
        )
        for n in range(number)
        for at in (ago(minutes=minutes + n % 20), ago(days=2))  # the other one before the last attempt
    ]
    add(settings, mart("orphaned_messages"), unconsumed)
    add(settings, mart("topic_consumer_groups"), groups)
    for name, of_host, sick, well in (
        (
            "trace_completeness",
            {"pairs": 60},
            {"ends_without_begin": 20, "begins_without_end": 20},
            {"ends_without_begin": 1, "begins_without_end": 1},
        ),
        ("duplicates", {"consumer_group": "g", "deliveries": 100}, {"duplicated": 20}, {"duplicated": 1}),
        (
            "orphan_rate",
            ORPHANS,
            {
                **{"orphaned": 19, "orphaned_proven": 5, "orphaned_inferred": 6, "orphaned_unknown": 8},
                **{"not_returned": 11, "filtered_or_lost": 8, "filtered": 30},
            },
            {"orphaned": 1, "orphaned_inferred": 1, "not_returned": 1},
        ),
        (
            "trace_volume",
            {"trace_topic": TOPIC},
            {"record_type": "Invalid", "records": 9},
            {"record_type": "Pub", "records": 15},
        ),
        ("clock_skew", {"client": "10.0.0.7@11"}, {"lead_ms": 45_000}, {"lead_ms": 7, "max_skew_ms": 3}),
    ):
        of_host = {"hour": hour} | of_host
        old = {"cluster": "well", **of_host, **sick, "hour": ago(days=2)}  # before the window
        rows = [{"cluster": "sick", **of_host, **sick}, {"cluster": "well", **of_host, **well}, old]
        add(settings, mart(name), rows)
    valid = {"cluster": "sick", "trace_topic": TOPIC, "record_type": "Pub", "hour": hour, "records": 15}
    add(settings, mart("trace_volume"), [valid])
    strange = {"hour": hour, "client": "10.0.0.7:1", "records": 4}
    add(
        settings,
        mart("invalid_records"),
        [
            {"cluster": "sick", "reason": "field_count:99", "is_unknown_layout": True, **strange},
            {"cluster": "well", "reason": "bad_integer:costTime", "is_unknown_layout": False, **strange},
        ],
    )
    burn = {"long_events": 100, "long_seconds": 3600, "threshold": 14.4, "short_burn": 20.0}
    add(
        settings,
        mart("slo_burn"),
        [
            {"cluster": cluster, "objective_name": "success", "severity": severity, "is_burning": bad, **burn}
            | {"long_burn": 30.0 if bad else 0.5}
            for cluster, bad in (("sick", True), ("well", False))
            for severity in ("page", "ticket")
        ],
    )
