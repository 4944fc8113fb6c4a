"""The Iceberg tables that the jobs write: their columns, partitions and meaning, defined once.

The marts are dbt's; see `dbt_project/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # readers of the catalog alone need no Spark
    from pyspark.sql import SparkSession

NAMESPACES = ("raw", "events", "staging", "changes", "intermediate", "marts", "ops")


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Table:
    """An Iceberg table: `lake.<name>`, its grain in the comment, columns in order."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    partitioned_by: str | None = None
    order: str | None = None
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def full_name(self) -> str:
        return f"lake.{self.name}"

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def schema(self) -> str:
        """The columns as a Spark DDL schema string."""
        return ", ".join(f"`{c.name}` {c.type}" for c in self.columns)


def _columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


_RECORD_KEY = (
    ("cluster", "string", "name of the RocketMQ cluster in the settings"),
    ("trace_topic", "string", "topic that the trace message was read from"),
    ("broker", "string", "broker name"),
    ("queue_id", "int", "queue of the trace topic on that broker"),
    ("epoch", "int", "life of the queue: 0, and one more each time it was reset after being made anew"),
    ("queue_offset", "bigint", "offset of the trace message in its queue"),
)

RAW = Table(
    "raw.trace_messages",
    "One row a trace message, as the broker stored it; append-only.",
    _columns(
        *_RECORD_KEY,
        ("store_time", "timestamp", "when the broker stored the message (broker's clock), UTC"),
        ("born_time", "timestamp", "when the client sent the message (client's clock), UTC"),
        ("born_host", "string", "client's address, ip:port"),
        ("store_host", "string", "broker's address, ip:port"),
        ("sys_flag", "int", "RocketMQ's sysFlag: compression, transaction and address bits"),
        ("body_crc", "int", "CRC32 of the stored body, as the broker states it"),
        ("stored_size", "int", "bytes of the whole message in the commit log"),
        ("keys", "string", "the message's KEYS property: message ids and user keys, space-separated"),
        ("properties", "map<string,string>", "all properties of the message"),
        ("body", "binary", "the inflated body; the stored bytes where body_error is set"),
        (
            "body_error",
            "string",
            "why the body could not be read (wrong CRC, not inflatable, too large); else NULL",
        ),
        ("run_id", "string", "extraction that wrote the row"),
        ("ingested_at", "timestamp", "when that extraction was planned, UTC"),
    ),
    partitioned_by="days(store_time)",
    properties=(("write.distribution-mode", "none"), ("write.spark.fanout.enabled", "true")),
)

EVENTS = Table(
    "events.trace_records",
    "One row a trace record, valid or Invalid. Its identity is its place: "
    "(cluster, trace_topic, broker, queue_id, epoch, queue_offset, record_index).",
    _columns(
        *_RECORD_KEY,
        ("record_index", "int", "0-based place of the record in the message's body; gaps are allowed"),
        ("store_time", "timestamp", "when the broker stored the trace message, UTC"),
        ("born_host", "string", "address of the client that wrote the trace, ip:port"),
        ("record_type", "string", "Pub, SubBefore, SubAfter, EndTransaction, Recall or Invalid"),
        ("layout", "string", "record layout that matched, such as pub_14; NULL for Invalid"),
        (
            "event_time",
            "timestamp",
            "time in the record (client's clock), UTC, ms; NULL if the wire has none",
        ),
        ("event_time_suspect", "boolean", "event_time is far from store_time (limits in the settings)"),
        ("region", "string", "region id, as on the wire"),
        ("group_name", "string", "producer or consumer group, as on the wire"),
        ("topic", "string", "topic of the traced message, as on the wire"),
        ("msg_id", "string", "id of the traced message; a comma list for a batch"),
        ("tags", "string", "tags, as on the wire"),
        ("keys", "string", "user keys, as on the wire, space-separated"),
        ("store_host", "string", "broker that stored the traced message, host:port"),
        ("body_length", "bigint", "bytes of the traced message's body, after compression"),
        ("cost_ms", "double", "duration of the send or of the consumption, ms"),
        ("msg_type", "string", "normal, half, commit, delay, order, or the unknown number"),
        ("offset_msg_id", "string", "the broker's id of the stored message; a comma list for a batch"),
        ("success", "boolean", "send returned SEND_OK, or consumption succeeded"),
        ("client_host", "string", "client's address inside the record; few clients write it"),
        ("request_id", "string", "id of one listener call; pairs SubBefore and SubAfter"),
        ("retry_times", "bigint", "how often the message was redelivered before this attempt"),
        (
            "context_code",
            "string",
            "success, timeout, exception, returned_null, failed, or the unknown number",
        ),
        ("transaction_id", "string", "transaction id"),
        ("transaction_state", "string", "COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW (spelled so)"),
        (
            "from_transaction_check",
            "boolean",
            "the state answers the broker's check, not the producer's call",
        ),
        ("invalid_reason", "string", "what is wrong with an Invalid record; else NULL"),
        ("raw", "binary", "the bytes of an Invalid record; else NULL"),
        ("decoder_version", "string", "version of the decoder that made the row"),
        ("change_seq", "bigint", "number of the commit that published the row; rises with each"),
    ),
    partitioned_by="days(store_time)",
    order="cluster, trace_topic, broker, queue_id, epoch, queue_offset, record_index",
)

INGEST_GAPS = Table(
    "ops.ingest_gaps",
    "One row a range of offsets that the broker had deleted before it was read.",
    _columns(
        ("cluster", "string", "cluster"),
        ("trace_topic", "string", "trace topic"),
        ("broker", "string", "broker name"),
        ("queue_id", "int", "queue"),
        ("epoch", "int", "life of the queue"),
        ("from_offset", "bigint", "first offset that is missing"),
        ("to_offset", "bigint", "first offset after the gap"),
        ("from_time", "timestamp", "store time of the last message read before the gap; NULL if none was"),
        (
            "to_time",
            "timestamp",
            "store time of the first message after the gap; where there is none, when it was found",
        ),
        ("detected_at", "timestamp", "when the gap was found, UTC"),
        ("run_id", "string", "extraction that found it"),
    ),
)

REPLACED_RECORDS = Table(
    "ops.replaced_records",
    "One row a record that a replay replaced, with what the models find it by: what they made of it is computed anew.",
    _columns(
        *_RECORD_KEY,
        ("record_index", "int", "place of the record in the message's body, as it was"),
        ("store_time", "timestamp", "when the broker stored the trace message, UTC"),
        ("record_type", "string", "as it was"),
        ("event_time", "timestamp", "as it was, UTC"),
        ("group_name", "string", "as it was"),
        ("topic", "string", "as it was"),
        ("msg_id", "string", "as it was"),
        ("request_id", "string", "as it was"),
        ("offset_msg_id", "string", "as it was"),
        ("cost_ms", "double", "as it was"),
        ("decoder_version", "string", "version of the decoder that had made the record"),
        ("change_seq", "bigint", "number of the commit to lake.events.trace_records that replaced it"),
    ),
    partitioned_by="days(store_time)",
)

PUBLICATIONS = Table(
    "ops.publications",
    "One row a table of a publication of the marts; what a crash left unfinished is rolled forward from here.",
    _columns(
        ("publication_id", "string", "one publication of all marts"),
        ("table_name", "string", "table, without the catalog"),
        ("branch", "string", "branch that holds what is published"),
        ("snapshot_id", "bigint", "the branch's head"),
        ("change_seq_to", "bigint", "last change_seq of events that the publication contains"),
        ("created_at", "timestamp", "when the tests had passed, UTC"),
        ("published_at", "timestamp", "when all tables of the publication were on main; NULL until then"),
    ),
)

CHECK_RESULTS = Table(
    "ops.check_results",
    "One row an evaluation of a check for an entity; of a check that found no entity, one row without one.",
    _columns(
        ("check", "string", "name of the check, as in docs/checks.md"),
        ("table", "string", "table that is judged, without the catalog"),
        ("partition", "string", "part of it that is judged, such as a span of time; NULL: all of it"),
        (
            "entity",
            "string",
            "cluster, topic, group, queue or test that is judged; NULL: the table as a whole",
        ),
        ("class", "string", "integrity (stops a publication), messaging or freshness"),
        ("severity", "string", "critical, warning or info: what a failure is"),
        ("value", "double", "what was measured; NULL where it could not be"),
        ("threshold", "double", "the limit that it was held against"),
        ("passed", "boolean", "NULL where nothing could be said, as of a test that dbt skipped"),
        ("detail", "string", "the value in words, or why there is none"),
        ("owner", "string", "who looks after the check"),
        ("runbook", "string", "what to do when it fails"),
        ("run", "string", "run that evaluated it"),
        ("evaluated_at", "timestamp", "when, UTC"),
    ),
    partitioned_by="days(evaluated_at)",
)

ALERTS = Table(
    "ops.alerts",
    "One row a fault: an alert from when its check first failed for an entity until it passed again.",
    _columns(
        ("identity", "string", "<environment>:<table>:<check>[:<entity>]; at most one alert of it is open"),
        ("environment", "string", "of the settings"),
        ("table", "string", "table that the check judges, without the catalog"),
        ("check", "string", "name of the check, as in docs/checks.md"),
        ("entity", "string", "cluster, topic, group, queue, test or task; NULL: the table as a whole"),
        ("class", "string", "integrity, messaging or freshness"),
        ("severity", "string", "critical, warning or info"),
        ("route", "string", "pipeline or messaging: who is told"),
        ("owner", "string", "who looks after the check"),
        ("runbook_url", "string", "what to do"),
        ("summary", "string", "the title: what is wrong, where, and the value against the limit"),
        ("description", "string", "what the newest evaluation found"),
        ("state", "string", "open or resolved"),
        ("first_failed_at", "timestamp", "when the check first failed, UTC"),
        ("last_seen_at", "timestamp", "newest evaluation that failed, UTC"),
        ("resolved_at", "timestamp", "when it passed again or was no more, UTC; NULL while open"),
        ("resolution", "string", "passed, or retired: the entity is no longer there to be judged"),
        (
            "announced",
            "boolean",
            "people are told, or will be; false while a maintenance window holds it back",
        ),
        ("opened_sent_to", "array<string>", "sinks that have taken the alert"),
        ("resolved_sent_to", "array<string>", "sinks that have taken the end of it"),
        ("next_attempt_at", "timestamp", "until then one run alone delivers it, UTC"),
        (
            "value",
            "double",
            "what the newest failure measured, in the unit of the check's limit; NULL: it could not be",
        ),
        ("threshold", "double", "the limit that it was held against"),
    ),
    # pyiceberg would try a refused commit again over whatever came between; spark_jobs/alerts/store.py reads anew.
    properties=(("commit.retry.num-retries", "0"),),
)

RETENTION = Table(
    "ops.retention",
    "One row a time that old rows were dropped from a table: what is older is gone, and nothing else is.",
    _columns(
        ("table_name", "string", "table, without the catalog"),
        ("before", "timestamp", "rows of an earlier time were dropped, UTC; booked before they are"),
        ("row_count", "bigint", "how many there were"),
        ("dropped_at", "timestamp", "when, UTC"),
        ("run_id", "string", "maintenance that dropped them"),
    ),
)

ERASURES = Table(
    "ops.erasures",
    "One row an erasure: a rule that every later extraction obeys. What was erased is not here, only its salted hash.",
    _columns(
        ("cluster", "string", "cluster"),
        ("kind", "string", "key, group or msg_id"),
        ("salt", "string", "stands before the text in the hash"),
        ("digest", "string", "SHA-256 of salt and text, hexadecimal"),
        ("requested_at", "timestamp", "when it was asked for, UTC"),
        ("completed_at", "timestamp", "when no live snapshot held it any more, UTC; NULL until then"),
        ("messages", "bigint", "messages of raw that were rewritten"),
        ("records", "bigint", "records that were taken out of them"),
        ("run_id", "string", "job that erased it"),
    ),
)

MAINTENANCE_WINDOWS = Table(
    "ops.maintenance_windows",
    "One row a check whose new alerts a job holds back while others wait for it.",
    _columns(
        ("window_id", "string", "one for each time that a job keeps others waiting"),
        ("starts_at", "timestamp", "when the job began, UTC"),
        (
            "ends_at",
            "timestamp",
            "a while after it ended, UTC; until then when it must have, however it dies",
        ),
        ("match", "string", "pattern (*, ?) of the identities that are held back"),
        ("run_id", "string", "the job's"),
    ),
)

ALL = (
    *(RAW, EVENTS, INGEST_GAPS, REPLACED_RECORDS, PUBLICATIONS, RETENTION, ERASURES),
    *(CHECK_RESULTS, ALERTS, MAINTENANCE_WINDOWS),
)


def _definition(column: Column) -> str:
    comment = column.comment.replace("'", "\\'")
    return f"`{column.name}` {column.type} comment '{comment}'"


def create_statement(table: Table) -> str:
    """The `create table if not exists` of a table."""
    columns = ",\n  ".join(map(_definition, table.columns))
    properties = dict(table.properties) | {"format-version": "2"}
    listed = ", ".join(f"'{k}'='{v}'" for k, v in sorted(properties.items()))
    partition = f"\npartitioned by ({table.partitioned_by})" if table.partitioned_by else ""
    comment = table.comment.replace("'", "\\'")
    return (
        f"create table if not exists {table.full_name} (\n  {columns}\n) using iceberg{partition}\n"
        f"comment '{comment}'\ntblproperties ({listed})"
    )


def ensure(spark: SparkSession) -> None:
    """Create the namespaces and tables that are not there yet, and the columns that a table of an earlier version lacks."""
    for namespace in NAMESPACES:
        spark.sql(f"create namespace if not exists lake.{namespace}")
    for table in ALL:
        if spark.catalog.tableExists(table.full_name):
            there = spark.table(table.full_name).columns
            if missing := [column for column in table.columns if column.name not in there]:
                spark.sql(
                    f"alter table {table.full_name} add columns ({', '.join(map(_definition, missing))})"
                )
            continue
        spark.sql(create_statement(table))
        if table.order:
            spark.sql(
                f"alter table {table.full_name} write distributed by partition locally ordered by {table.order}"
            )
