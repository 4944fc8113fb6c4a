"""Committed offsets: how far each queue has been read, stored in the snapshot with the data (a checkpoint).

The property `trace.offsets` of a snapshot of `raw.trace_messages` or `events.trace_records` is a
JSON object: `<cluster>/<trace_topic>/<broker>/<queue_id>` to a `Position`. Offsets and data are
committed together, so neither can exist without the other.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, ancestors_of

from spark_jobs.lake.catalog import head, lake, summary_with
from spark_jobs.lake.tables import EVENTS, INGEST_GAPS, RAW, Table
from spark_jobs.settings import Settings

if TYPE_CHECKING:  # programs without Spark import this module
    from pyspark.sql import SparkSession

OFFSETS = "trace.offsets"
CHANGE_SEQ = "trace.change_seq"  # the number of the commit to events
RUN_ID = "trace.run_id"
# The cluster whose new messages the commit appends; "" for a commit that only gives an empty table its first snapshot.
EXTRACTED = "trace.extracted"


@dataclass(frozen=True, order=True)
class Queue:
    """A queue of a trace topic on one broker of one cluster."""

    cluster: str
    trace_topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.trace_topic}/{self.broker}/{self.queue_id}"

    @classmethod
    def parse(cls, text: str) -> Queue:
        """The inverse of `str`. Names and topics of RocketMQ cannot contain a slash."""
        parts = text.split("/")
        if len(parts) != 4 or not parts[3].isdecimal():
            raise ValueError(f"{text!r} is not a queue: write <cluster>/<trace topic>/<broker>/<queue id>")
        cluster, trace_topic, broker, queue_id = parts
        return cls(cluster, trace_topic, broker, int(queue_id))


@dataclass(frozen=True)
class Position:
    """Where the next read of a queue starts, and what the last message read looked like.

    Attributes:
        next: the first offset that was not read yet.
        epoch: number of the queue's incarnation; raised when the queue is reset after its topic was recreated.
        store_time: of the last message read, ms; None if none was read yet.
        physical_offset: of the last message read, in the broker's commit log; None if unknown.
        crc: body CRC of the last message read.
        complete_to: every message stored before this time was read, ms; of a queue that the cluster got later, at least the
            watermark that it had then.
        retired: its topic is no longer in the settings, or it was retired by hand; it does not hold the watermark back.
        unanswered: no broker has answered for it yet, so `next` is no offset of it.
    """

    next: int
    epoch: int = 0
    store_time: int | None = None
    physical_offset: int | None = None
    crc: int | None = None
    complete_to: int = 0
    retired: bool = False
    unanswered: bool = False


Positions = dict[Queue, Position]


def to_json(positions: Positions) -> str:
    fields = {str(queue): asdict(position) for queue, position in sorted(positions.items())}
    for each in fields.values():
        if not each["unanswered"]:
            del each["unanswered"]
    return json.dumps(fields, separators=(",", ":"))


def committed_positions(settings: Settings, table: Table) -> Positions:
    """The committed offsets of a table's main branch; empty if no live snapshot has them. Reads no rows."""
    summary = summary_with(settings, table, OFFSETS)
    return from_json(summary[OFFSETS]) if summary else {}


def from_json(text: str) -> Positions:
    found = {Queue.parse(queue): Position(**fields) for queue, fields in json.loads(text).items()}
    # Releases before `unanswered` wrote this one for a queue that had not answered.
    return {q: replace(p, unanswered=True) if p == Position(next=0) else p for q, p in found.items()}


def watermarks(positions: Positions) -> dict[str, int]:
    """Per cluster the time up to which every queue that is not retired is complete, ms."""
    found: dict[str, int] = {}
    for queue, position in positions.items():
        if position.retired:
            continue
        found[queue.cluster] = min(found.get(queue.cluster, position.complete_to), position.complete_to)
    return found


@dataclass(frozen=True)
class CommittedOffsets:
    """The committed offsets of a table: those of the newest snapshot on main that has them.

    Attributes:
        positions: per queue.
        change_seq: the last published change_seq (events only).
        head: the snapshot id of main when the offsets were read; a publication starts there.
    """

    positions: Positions
    change_seq: int = 0
    head: int | None = None


def read_offsets(spark: SparkSession, settings: Settings, table: Table) -> CommittedOffsets:
    """Read the committed offsets of a table's main branch.

    They are in the newest snapshot that has the property `trace.offsets`. Where no live snapshot has it, they are
    rebuilt from the rows (and, for raw, from the ingest gaps), with `complete_to` at the last store time.
    """
    # Read first: if main moves before the offsets are read, the publication fails and is retried; nothing is lost.
    main = head(settings, table)
    return committed(settings, table) or replace(_rebuilt(spark, table), head=main)


def committed(settings: Settings, table: Table) -> CommittedOffsets | None:
    """`read_offsets` without Spark; None if no live snapshot has them."""
    main = head(settings, table) if lake(settings).table_exists(table.name) else None
    summary = summary_with(settings, table, OFFSETS) if main is not None else {}
    if not summary:
        return None
    return CommittedOffsets(from_json(summary[OFFSETS]), int(summary.get(CHANGE_SEQ, 0)), main)


def positions_at(settings: Settings, change_seq: int) -> Positions | None:
    """The committed offsets of events at the end of this change_seq; None if rows were replaced or deleted since.

    None, too, if its snapshots have expired.
    """
    metadata = lake(settings).load_table(EVENTS.name).metadata
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        summary = snapshot.summary
        if summary is None or summary.operation not in (Operation.APPEND, Operation.REPLACE):
            return None
        if summary[OFFSETS] and int(summary[CHANGE_SEQ] or 0) <= change_seq:
            return from_json(summary[OFFSETS] or "")
    return None


def records_after(settings: Settings, change_seq: int | None) -> int:
    """The number of records that were added to events after this change_seq; of all records if it is None or has expired."""
    metadata = lake(settings).load_table(EVENTS.name).metadata
    added = 0
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata) if change_seq is not None else ():
        summary = snapshot.summary
        if summary is None or summary.operation == Operation.REPLACE:  # a compaction
            continue
        if change_seq is not None and int(summary[CHANGE_SEQ] or change_seq + 1) <= change_seq:
            return added
        added += int(summary["added-records"] or 0)
    newest = metadata.current_snapshot()
    return int(newest.summary["total-records"] or 0) if newest and newest.summary else 0


def _rebuilt(spark: SparkSession, table: Table) -> CommittedOffsets:
    crc = "body_crc" if table == RAW else "cast(null as int)"
    rows = spark.sql(
        f"""
        select
          cluster,
          trace_topic,
          broker,
          queue_id,
          max(struct(epoch, queue_offset, unix_millis(store_time) as ms, {crc} as crc)) as last
        from {table.full_name}
        group by cluster, trace_topic, broker, queue_id
        """
    ).collect()
    positions = {
        Queue(row.cluster, row.trace_topic, row.broker, row.queue_id): Position(
            next=row["last"].queue_offset + 1,
            epoch=row["last"].epoch or 0,
            store_time=row["last"].ms,
            crc=row["last"].crc,
            complete_to=row["last"].ms,
        )
        for row in rows
    }
    change_seq = 0
    if table == RAW:
        _add_gaps(spark, positions)
    if table == EVENTS:
        change_seq = spark.sql(f"select max(change_seq) from {table.full_name}").collect()[0][0] or 0
    return CommittedOffsets(positions, change_seq)


def _add_gaps(spark: SparkSession, positions: Positions) -> None:
    """Offsets of a recorded gap count as read."""
    for gap in spark.table(INGEST_GAPS.full_name).collect():
        queue = Queue(gap.cluster, gap.trace_topic, gap.broker, gap.queue_id)
        known = positions.get(queue, Position(next=0))
        if (gap.epoch, gap.to_offset) > (known.epoch, known.next):
            positions[queue] = Position(
                next=gap.to_offset,
                epoch=gap.epoch,
                store_time=known.store_time,
                complete_to=known.complete_to,
            )


@dataclass(frozen=True)
class Range:
    """The offsets [start, end) of one epoch of a queue."""

    queue: Queue
    epoch: int
    start: int
    end: int

    def condition(self, prefix: str = "") -> str:
        """SQL condition for the rows of the range, in raw and in events; the prefix is of each column."""
        q = self.queue
        of_queue = {
            "cluster": quoted(q.cluster),
            "trace_topic": quoted(q.trace_topic),
            "broker": quoted(q.broker),
        }
        of_queue |= {"queue_id": str(q.queue_id), "epoch": str(self.epoch)}
        return " and ".join(
            [
                *(f"{prefix}{name} = {value}" for name, value in of_queue.items()),
                f"{prefix}queue_offset between {self.start} and {self.end - 1}",
            ]
        )


def quoted(text: str) -> str:
    """The text as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
