"""Re-extract: read offsets again that were read before, and replace their rows in raw.

The committed offsets do not change. Messages that the broker has deleted are not requested, so raw keeps their rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.ingest.plan import Plan
from spark_jobs.ingest.step import Broker, Step, raise_if_recreated
from spark_jobs.lake import publish
from spark_jobs.lake.offsets import (
    OFFSETS,
    RUN_ID,
    CommittedOffsets,
    Positions,
    Queue,
    Range,
    rows_in,
    to_json,
)
from spark_jobs.lake.tables import RAW
from spark_jobs.trace.merge import parts_of


class Source(Broker, Protocol):
    """The requests that planning a re-extraction makes for one queue."""

    def offset_at(self, queue: Queue, store_time_ms: int) -> int:
        """The first offset stored at or after a time, ms; the max offset if there is none."""


@dataclass(frozen=True)
class ReextractRequest:
    """Store times [start, end) in ms for all queues, or offsets [start, end) of one queue."""

    start: int
    end: int
    queue: Queue | None = None


@dataclass(frozen=True)
class RangeAgain:
    """The requested offsets of a queue, and the part of them that the broker has and that was read before.

    `before` is the number of rows that raw had of that part.
    """

    asked_start: int
    asked_end: int
    range: Range
    before: int = 0


def planned(
    source: Source, queues: Iterable[Queue], positions: Positions, asked: ReextractRequest
) -> list[RangeAgain]:
    """Plan what is read again.

    Args:
        source: queries the brokers.
        queues: those in the routes of the topics.
        positions: committed offsets of raw.
        asked: the requested offsets or times.

    Raises:
        QueueError: a topic was deleted and recreated: its offsets are other messages now.
        ValueError: the requested queue was never read, or no broker has it; the message lists those that are known.
    """
    known = sorted(queue for queue in set(queues) if queue in positions)
    if asked.queue is not None and asked.queue not in known:
        there = ", ".join(map(str, known)) or "none"
        raise ValueError(f"queue {asked.queue} was never read, or no broker has it; there are: {there}")
    found = []
    for queue in [asked.queue] if asked.queue else known:
        position, bounds = positions[queue], source.bounds(queue)
        raise_if_recreated(source, queue, position, bounds)
        start, end = asked.start, asked.end
        if asked.queue is None:
            start, end = source.offset_at(queue, asked.start), source.offset_at(queue, asked.end)
        first, after = max(start, bounds.min_offset), min(end, bounds.max_offset, position.next)
        if after > first:
            found.append(RangeAgain(start, end, Range(queue, position.epoch, first, after)))
    return found


def as_plan(again: list[RangeAgain], committed: CommittedOffsets, planned_at: int) -> Plan:
    """The ranges as a plan that `raw.read` takes; its positions are the committed offsets."""
    steps = [Step(each.range, committed.positions[each.range.queue], lag=0) for each in again]
    return Plan(planned_at, steps, {}, dict(committed.positions))


def counted(spark: SparkSession, again: list[RangeAgain], head: int) -> list[RangeAgain]:
    """The ranges with the number of rows that raw has of each."""
    there = spark.read.option("versionAsOf", head).table(RAW.full_name)
    return [replace(each, before=there.where(each.range.condition).count()) for each in again]


def replace_in_raw(
    spark: SparkSession, rows: DataFrame, again: list[RangeAgain], committed: CommittedOffsets, run_id: str
) -> None:
    """Replace the rows that raw has of the same offsets: delete and append on one branch, audit, publish.

    Args:
        spark: the session.
        rows: columns of raw; all messages of the ranges, read when an action runs.
        again: as `counted` returns it.
        committed: offsets of raw that the plan was made from.
        run_id: written to the snapshot that is published.

    Raises:
        publish.PublishConflictError: another writer published first.
        publish.AuditError: the branch does not hold exactly the offsets, or other rows are not as many as before.
    """
    ranges = [each.range for each in again]
    before = spark.read.option("versionAsOf", committed.head).table(RAW.full_name)
    parts = parts_of(rows_in(before, ranges))
    properties = {OFFSETS: to_json(committed.positions), RUN_ID: run_id}
    with publish.write_audit_publish(spark, RAW, "reextract", committed.head) as branch:
        if parts:
            spark.sql(
                f"delete from {RAW.full_name}.branch_{branch} as t "
                f"where {' or '.join(f'({part.condition})' for part in parts)}"
            )
        publish.append(rows, RAW, branch, properties)
        _audit(spark, branch, again, before.count())


def _audit(spark: SparkSession, branch: str, again: list[RangeAgain], rows_before: int) -> None:
    written = publish.on_branch(spark, RAW, branch)
    expected = rows_before
    wrong = []
    for each in again:
        offsets = each.range.end - each.range.start
        expected += offsets - each.before
        rows, places = (
            written.where(each.range.condition)
            .agg(F.count("*"), F.countDistinct("queue_offset"))
            .collect()[0]
        )
        if rows != offsets or places != offsets:
            wrong.append(
                f"queue {each.range.queue}: {offsets} offsets from {each.range.start} were read again, "
                f"{rows} rows of {places} offsets are there"
            )
    if not wrong and (found := written.count()) != expected:
        wrong.append(f"{found} rows in all, {expected} were expected")
    if wrong:
        raise publish.AuditError(
            f"{RAW.full_name}: {'; '.join(wrong)}. Nothing was published; run the re-extraction again"
        )
