"""The definitions of the Iceberg tables that the jobs write: columns, comments, partitions.

The marts are defined by dbt; see `dbt_project/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # programs without Spark import this module
    from pyspark.sql import SparkSession

NAMESPACES = ("raw", "events", "staging", "changes", "intermediate", "marts", "ops")


class Column(NamedTuple):
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


_MESSAGE_KEY = (
    ("cluster", "string", "name of the RocketMQ cluster in the settings"),
    ("trace_topic", "string", "topic that the trace message was read from"),
    ("broker", "string", "broker name"),
    ("queue_id", "int", "queue of the trace topic on that broker"),
    ("epoch", "int", "epoch of the queue: 0, plus 1 for each reset after its topic was recreated"),
    ("queue_offset", "bigint", "offset of the trace message in its queue"),
)

# The keys of a trace message and of a record in it.
MESSAGE_KEY = [name for name, _, _ in _MESSAGE_KEY]
RECORD_KEY = [*MESSAGE_KEY, "record_index"]

RAW = Table(
    "raw.trace_messages",
    "One row per trace message, as the broker stored it; append-only.",
    _columns(
        *_MESSAGE_KEY,
        ("store_time", "timestamp", "when the broker stored the message (broker's clock), UTC"),
        ("born_time", "timestamp", "when the client sent the message (client's clock), UTC"),
        ("born_host", "string", "client's address, ip:port"),
        ("store_host", "string", "broker's address, ip:port"),
        ("sys_flag", "int", "RocketMQ's sysFlag: compression, transaction and address bits"),
        ("body_crc", "int", "CRC32 of the stored body, computed by the broker"),
        ("stored_size", "int", "size of the message in the commit log, bytes"),
        ("keys", "string", "the message's KEYS property: message ids and user keys, space-separated"),
        ("properties", "map<string,string>", "all properties of the message"),
        ("body", "binary", "the inflated body; the stored bytes if body_error is set"),
        ("body_error", "string", "wrong CRC, not inflatable, or too large; NULL for a readable body"),
        ("run_id", "string", "run id of the extraction that wrote the row"),
        ("ingested_at", "timestamp", "when that extraction was planned, UTC"),
    ),
    partitioned_by="days(store_time)",
    properties=(("write.distribution-mode", "none"), ("write.spark.fanout.enabled", "true")),
)

EVENTS = Table(
    "events.trace_records",
    "One row per trace record, valid or Invalid. Its key: "
    "(cluster, trace_topic, broker, queue_id, epoch, queue_offset, record_index).",
    _columns(
        *_MESSAGE_KEY,
        ("record_index", "int", "0-based position of the record in the message's body; gaps are allowed"),
        ("store_time", "timestamp", "when the broker stored the trace message, UTC"),
        ("born_host", "string", "address of the client that wrote the trace, ip:port"),
        ("record_type", "string", "Pub, SubBefore, SubAfter, EndTransaction, Recall or Invalid"),
        ("layout", "string", "record layout that matched, such as pub_14; NULL for Invalid"),
        ("event_time", "timestamp", "time in the record (client's clock), UTC, ms; NULL if absent"),
        ("event_time_suspect", "boolean", "event_time is far from store_time (limits in the settings)"),
        ("region", "string", "region id, as on the wire"),
        ("group_name", "string", "producer or consumer group, as on the wire"),
        ("topic", "string", "topic of the traced message, as on the wire"),
        ("msg_id", "string", "id of the traced message; a comma list for a batch"),
        ("tags", "string", "tags, as on the wire"),
        ("keys", "string", "user keys, as on the wire, space-separated"),
        ("store_host", "string", "broker that stored the traced message, host:port"),
        ("body_length", "bigint", "size of the traced message's body after compression, bytes"),
        ("cost_ms", "double", "duration of the send or of the consumption, ms"),
        ("msg_type", "string", "normal, half, commit, delay, order, or the unknown number"),
        ("offset_msg_id", "string", "the broker's id of the stored message; a comma list for a batch"),
        ("success", "boolean", "send returned SEND_OK, or consumption succeeded"),
        ("client_host", "string", "client's address in the record; few clients write it"),
        ("request_id", "string", "id of one listener call; pairs SubBefore and SubAfter"),
        ("retry_times", "bigint", "number of redeliveries of the message before this attempt"),
        ("context_code", "string", "success, timeout, exception, returned_null, failed, or a number"),
        ("transaction_id", "string", "transaction id"),
        ("transaction_state", "string", "COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW (sic)"),
        ("from_transaction_check", "boolean", "the state is the response to a check by the broker"),
        ("invalid_reason", "string", "why the record is Invalid; NULL if it is valid"),
        ("raw", "binary", "the bytes of an Invalid record; NULL if it is valid"),
        ("decoder_version", "string", "version of the decoder that wrote the row"),
        ("change_seq", "bigint", "number of the commit that published the row; each commit has a higher one"),
    ),
    partitioned_by="days(store_time)",
    order=", ".join(RECORD_KEY),
)

INGEST_GAPS = Table(
    "ops.ingest_gaps",
    "One row per range of offsets that the broker had deleted before it was read.",
    _columns(
        ("cluster", "string", "cluster"),
        ("trace_topic", "string", "trace topic"),
        ("broker", "string", "broker name"),
        ("queue_id", "int", "queue"),
        ("epoch", "int", "epoch of the queue"),
        ("from_offset", "bigint", "first offset that is missing"),
        ("to_offset", "bigint", "first offset after the gap"),
        ("from_time", "timestamp", "store time of the last message before the gap; NULL: none"),
        ("to_time", "timestamp", "store time of the first message after the gap, or detected_at"),
        ("detected_at", "timestamp", "when the gap was found, UTC"),
        ("run_id", "string", "run id of the extraction that found it"),
    ),
)

REPLACED_RECORDS = Table(
    "ops.replaced_records",
    "One row per record that a replay replaced, with the columns by which the models find the rows to compute again.",
    _columns(
        *_MESSAGE_KEY,
        ("record_index", "int", "position of the record in the message's body, before"),
        ("store_time", "timestamp", "when the broker stored the trace message, UTC"),
        ("record_type", "string", "before the replay"),
        ("event_time", "timestamp", "before the replay, UTC"),
        ("group_name", "string", "before the replay"),
        ("topic", "string", "before the replay"),
        ("msg_id", "string", "before the replay"),
        ("request_id", "string", "before the replay"),
        ("offset_msg_id", "string", "before the replay"),
        ("cost_ms", "double", "before the replay"),
        ("decoder_version", "string", "version of the decoder that had written the record"),
        ("change_seq", "bigint", "change_seq of the commit to lake.events.trace_records that replaced it"),
    ),
    partitioned_by="days(store_time)",
)

PUBLICATIONS = Table(
    "ops.publications",
    "One row per table of a publication of the marts; a publication that a crash interrupted is rolled forward.",
    _columns(
        ("publication_id", "string", "one publication of all marts"),
        ("table_name", "string", "table, without the catalog"),
        ("branch", "string", "branch that is published"),
        ("snapshot_id", "bigint", "the branch's head"),
        ("change_seq_to", "bigint", "last change_seq of events that the publication contains"),
        ("created_at", "timestamp", "when all tests had passed, UTC"),
        ("published_at", "timestamp", "when all its tables were on main, UTC; NULL until then"),
    ),
)

CHECK_RESULTS = Table(
    "ops.check_results",
    "One row per evaluation of a check for an entity; one row without an entity if the check found none.",
    _columns(
        ("check", "string", "name of the check, as in docs/checks.md"),
        ("table", "string", "table that is checked, without the catalog"),
        ("partition", "string", "part of the table that is checked, such as a time range; NULL: all of it"),
        ("entity", "string", "cluster, topic, group, queue or test; NULL: the whole table"),
        ("class", "string", "integrity (blocks a publication), messaging or freshness"),
        ("severity", "string", "severity of a failure: critical, warning or info"),
        ("value", "double", "measured value; NULL if it could not be measured"),
        ("threshold", "double", "the limit of the value"),
        ("passed", "boolean", "NULL if unknown, such as for a test that dbt skipped"),
        ("detail", "string", "the value in words, or why it is missing"),
        ("owner", "string", "owner of the check"),
        ("runbook", "string", "what to do if the check fails"),
        ("run", "string", "run id of the evaluation"),
        ("evaluated_at", "timestamp", "when it was evaluated, UTC"),
    ),
    partitioned_by="days(evaluated_at)",
)

ALERTS = Table(
    "ops.alerts",
    "One row per alert: from the first failure of a check for an entity until it passes again.",
    _columns(
        ("identity", "string", "<environment>:<table>:<check>[:<entity>]; at most one is open"),
        ("environment", "string", "environment in the settings"),
        ("table", "string", "table that is checked, without the catalog"),
        ("check", "string", "name of the check, as in docs/checks.md"),
        ("entity", "string", "cluster, topic, group, queue, test or task; NULL: the whole table"),
        ("class", "string", "integrity, messaging or freshness"),
        ("severity", "string", "critical, warning or info"),
        ("route", "string", "pipeline or messaging: who is notified"),
        ("owner", "string", "owner of the check"),
        ("runbook_url", "string", "link to the runbook"),
        ("summary", "string", "the title: what is wrong, where, the value and the limit"),
        ("description", "string", "detail of the newest evaluation"),
        ("state", "string", "open or resolved"),
        ("first_failed_at", "timestamp", "when the check first failed, UTC"),
        ("last_seen_at", "timestamp", "newest failed evaluation, UTC"),
        ("resolved_at", "timestamp", "when it passed again or was retired, UTC; NULL while open"),
        ("resolution", "string", "passed, or retired: the entity no longer exists"),
        ("announced", "boolean", "false while a maintenance window silences the alert"),
        ("opened_sent_to", "array<string>", "sinks that have accepted the alert"),
        ("resolved_sent_to", "array<string>", "sinks that have accepted its resolution"),
        ("next_attempt_at", "timestamp", "until then only one run delivers it, UTC"),
        ("value", "double", "value of the newest failure; NULL if it could not be measured"),
        ("threshold", "double", "the limit of the value"),
    ),
    # Otherwise pyiceberg would retry a conflicting commit on top of the other one; spark_jobs/alerts/store.py reads again.
    properties=(("commit.retry.num-retries", "0"),),
)

RETENTION = Table(
    "ops.retention",
    "One row per deletion of old rows of a table by retention: all rows of an earlier time are deleted, and no others.",
    _columns(
        ("table_name", "string", "table, without the catalog"),
        ("before", "timestamp", "rows of an earlier time are deleted, UTC; recorded before the deletion"),
        ("row_count", "bigint", "number of rows"),
        ("dropped_at", "timestamp", "when they were deleted, UTC"),
        ("run_id", "string", "run id of the maintenance that deleted them"),
    ),
)

ERASURES = Table(
    "ops.erasures",
    "One row per erasure: a rule that every later extraction applies. It contains a salted hash, not the erased text.",
    _columns(
        ("cluster", "string", "cluster"),
        ("kind", "string", "key, group or msg_id"),
        ("salt", "string", "prefix of the text in the hash"),
        ("digest", "string", "SHA-256 of salt and text, hexadecimal"),
        ("requested_at", "timestamp", "when it was requested, UTC"),
        ("completed_at", "timestamp", "when no live snapshot contained it any more, UTC; NULL until then"),
        ("messages", "bigint", "number of messages of raw that were rewritten"),
        ("records", "bigint", "number of records that were removed from them"),
        ("run_id", "string", "run id of the erasure"),
    ),
)

MAINTENANCE_WINDOWS = Table(
    "ops.maintenance_windows",
    "One row per check whose new alerts a job silences while other jobs wait for it.",
    _columns(
        ("window_id", "string", "id of the window; its rows have the same one"),
        ("starts_at", "timestamp", "when the job started, UTC"),
        ("ends_at", "timestamp", "some time after the job ends, UTC; at first the latest possible end"),
        ("match", "string", "pattern (*, ?) of the silenced identities"),
        ("run_id", "string", "run id of the job"),
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
    """The statement `create table if not exists` for a table."""
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
    """Create missing namespaces and tables, and add missing columns to tables of earlier versions."""
    for namespace in NAMESPACES:
        spark.sql(f"create namespace if not exists lake.{namespace}")
    for table in ALL:
        if spark.catalog.tableExists(table.full_name):
            existing = spark.table(table.full_name).columns
            if missing := [column for column in table.columns if column.name not in existing]:
                spark.sql(
                    f"alter table {table.full_name} add columns ({', '.join(map(_definition, missing))})"
                )
            continue
        spark.sql(create_statement(table))
        if table.order:
            spark.sql(
                f"alter table {table.full_name} write distributed by partition locally ordered by {table.order}"
            )
