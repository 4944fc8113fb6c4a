"""Merge decoded records into events: an idempotent insert by record key, on a branch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.lake import publish
from spark_jobs.lake.offsets import (
    CHANGE_SEQ,
    OFFSETS,
    RUN_ID,
    CommittedOffsets,
    Position,
    Positions,
    Queue,
    Range,
    to_json,
)
from spark_jobs.lake.ranges import MOST_CONDITIONS, covering, rows_in
from spark_jobs.lake.tables import EVENTS, RAW, RECORD_KEY, TRACE_MESSAGE_KEY
from spark_jobs.settings import Limits
from spark_jobs.trace.audit import Audit, Compared, compare
from spark_jobs.trace.decode import DECODER_VERSION, decode

# An epoch that has ended is merged to its end.
END_OF_EPOCH = 2**62


def pending(raw: Positions, events: Positions) -> list[Range]:
    """The offsets that are in raw and not yet in events, per epoch."""
    ranges = []
    for queue, position in sorted(raw.items()):
        done = events.get(queue, Position(next=0))
        for epoch in range(done.epoch, position.epoch + 1):
            start = done.next if epoch == done.epoch else 0
            end = position.next if epoch == position.epoch else END_OF_EPOCH
            if end > start:
                ranges.append(Range(queue, epoch, start, end))
    return ranges


@dataclass(frozen=True)
class Part:
    """From the first to the last of the messages of one queue and one day.

    `day` is the day of the store time, UTC; None for messages that could not be parsed, which have no store time.
    """

    range: Range
    day: date | None

    @property
    def condition(self) -> str:
        """SQL condition for the rows `t` of the part, in literals, so that Iceberg prunes all other files."""
        return f"{self.range.condition('t.')} and {_stored_on(self.day)}"


def _stored_on(day: date | None) -> str:
    if day is None:
        return "t.store_time is null"
    start = f"timestamp '{day} 00:00:00'"
    return f"t.store_time >= {start} and t.store_time < {start} + interval 1 day"


def parts_of(messages: DataFrame) -> list[Part]:
    """The parts that contain the messages."""
    day = F.to_date("store_time").alias("day")
    rows = (
        messages.groupBy(*TRACE_MESSAGE_KEY[:-1], day)
        .agg(F.min("queue_offset").alias("first"), F.max("queue_offset").alias("last"))
        .orderBy(*TRACE_MESSAGE_KEY[:-1], "day")
        .collect()
    )
    return [
        Part(
            Range(
                Queue(row.cluster, row.trace_topic, row.broker, row.queue_id),
                row.epoch,
                row.first,
                row.last + 1,
            ),
            row.day,
        )
        for row in rows
    ]


def in_parts(parts: list[Part]) -> str:
    """SQL condition that holds for all rows `t` of the parts, and if the parts are many, for others between them."""
    if len(parts) <= MOST_CONDITIONS:
        return f"({' or '.join(f'({part.condition})' for part in parts)})"
    days = sorted({part.day for part in parts}, key=lambda day: day or date.min)
    stored = " or ".join(f"({_stored_on(day)})" for day in days)
    return f"({covering([part.range for part in parts], 't.')} and ({stored}))"


def same_key(parts: list[Part], key: list[str] = RECORD_KEY) -> str:
    """SQL condition: row `t` of the table and row `s` of the batch have the same key (`RECORD_KEY` or `TRACE_MESSAGE_KEY`).

    Args:
        parts: those of the batch. They exclude no row with the same key; Iceberg reads only files that may have them.
        key: its columns.
    """
    return f"{' and '.join(f't.{name} = s.{name}' for name in key)} and {in_parts(parts)}"


def rows_of(messages: DataFrame, limits: Limits, change_seq: int) -> DataFrame:
    """Decode the messages into rows of `events.trace_records` with this `change_seq`."""
    return decode(messages, limits).withColumns(
        {"decoder_version": F.lit(DECODER_VERSION), "change_seq": F.lit(change_seq).cast("bigint")}
    )


def merge(
    spark: SparkSession,
    ranges: list[Range],
    raw: Positions,
    events: CommittedOffsets,
    limits: Limits,
    run_id: str,
) -> Audit:
    """Decode the messages of `ranges` and publish their records with the committed offsets of raw.

    Without new messages only the offsets are published, so that the watermark advances; `change_seq` rises only with
    records.

    Raises:
        publish.PublishConflictError: another merge published first.
        publish.AuditError: the branch does not contain the records of the messages.
    """
    stored = spark.table(RAW.full_name)
    messages = rows_in(stored, ranges)
    parts = parts_of(messages)
    change_seq = events.change_seq + (1 if parts else 0)
    properties = {OFFSETS: to_json(raw), CHANGE_SEQ: str(change_seq), RUN_ID: run_id}
    batch = rows_of(messages, limits, change_seq)
    with publish.write_audit_publish(spark, EVENTS, "merge", events.head) as branch:
        if parts:
            _insert(spark, batch, branch, parts, properties)
            compared = _audit(spark, stored, branch, ranges)
        else:
            publish.append(batch, EVENTS, branch, properties)
            compared = ()
        head = publish.branch_head(spark, EVENTS, branch)
    return Audit(head, tuple(ranges) if parts else (), compared)


def _insert(
    spark: SparkSession, batch: DataFrame, branch: str, parts: list[Part], properties: dict[str, str]
) -> None:
    """Insert the rows of the batch whose keys the branch does not have.

    An append takes less time than a MERGE that matches nothing, and events seldom has rows of these offsets: after a restore, for
    example, or where offsets were reset.
    """
    if publish.on_branch(spark, EVENTS, branch).alias("t").where(in_parts(parts)).isEmpty():
        publish.append(batch, EVENTS, branch, properties)
    else:
        insert = "when not matched then insert *"
        publish.merge_into_branch(batch, EVENTS, branch, same_key(parts), insert, properties)


def _audit(spark: SparkSession, raw: DataFrame, branch: str, ranges: list[Range]) -> tuple[Compared, ...]:
    """Compare the messages of the ranges with their records on the branch."""
    compared = compare(raw, publish.on_branch(spark, EVENTS, branch), ranges)
    if wrong := [each for each in compared if each.wrong]:
        first = wrong[0].range
        raise publish.AuditError(
            f"{EVENTS.full_name}: branch {branch} has {sum(each.short for each in wrong)} message(s) without all their "
            f"records, {sum(each.twice for each in wrong)} with duplicate records, {sum(each.strange for each in wrong)} "
            f"with records that raw does not have; the first in epoch {first.epoch} of {first.queue}. "
            "Nothing was published; raw is unchanged, so the merge can run again"
        )
    return compared
