"""Read offsets again that were read before, and put what the broker gives now in place of what raw has of them.

The positions stay where they are: this never goes past them and never takes them back. What the broker no longer has
is not asked for, so raw keeps it.
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
    """What the plan asks about one queue."""

    def offset_at(self, queue: Queue, store_time_ms: int) -> int:
        """The first offset stored at or after a time, ms; the one after the last where none is."""


@dataclass(frozen=True)
class ReextractRequest:
    """Store times [start, end) in ms of all queues, or offsets [start, end) of one."""

    start: int
    end: int
    queue: Queue | None = None


@dataclass(frozen=True)
class RangeAgain:
    """What was asked of a queue, in offsets, and the part that the broker has and that was read before.

    `before` is how many messages of that part raw had.
    """

    asked_start: int
    asked_end: int
    range: Range
    before: int = 0


def planned(
    source: Source, queues: Iterable[Queue], positions: Positions, asked: ReextractRequest
) -> list[RangeAgain]:
    """What of the queues is to be read again.

    Args:
        source: answers for the brokers.
        queues: those in the routes of the topics.
        positions: how far raw has read.
        asked: the offsets or times.

    Raises:
        QueueError: a queue was made anew: its offsets are other messages now.
        ValueError: the one queue that was asked for was never read, or no broker has it; the message says which are.
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
    """The ranges as a plan that `raw.read` takes; the positions are those that are booked."""
    steps = [Step(each.range, committed.positions[each.range.queue], lag=0) for each in again]
    return Plan(planned_at, steps, {}, dict(committed.positions))


def counted(spark: SparkSession, again: list[RangeAgain], head: int) -> list[RangeAgain]:
    """The same with how many messages raw has of each."""
    there = spark.read.option("versionAsOf", head).table(RAW.full_name)
    return [replace(each, before=there.where(each.range.condition).count()) for each in again]


def replace_in_raw(
    spark: SparkSession, rows: DataFrame, again: list[RangeAgain], committed: CommittedOffsets, run_id: str
) -> None:
    """Publish the rows in place of those that raw has of the same offsets: delete and append on one branch.

    Args:
        spark: the session.
        rows: columns of raw; all messages of the ranges, read when an action runs.
        again: as `counted` returns it.
        committed: of raw, that the plan was made from.
        run_id: stands in the snapshot that is published.

    Raises:
        publish.PublishConflictError: another writer was first.
        publish.AuditError: the branch does not hold exactly the offsets, or other rows are not as many as before.
    """
    ranges = [each.range for each in again]
    before = spark.read.option("versionAsOf", committed.head).table(RAW.full_name)
    parts = parts_of(rows_in(before, ranges))
    properties = {OFFSETS: to_json(committed.positions), RUN_ID: run_id}
    with publish.branch(spark, RAW, "reextract", committed.head) as branch:
        if parts:
            spark.sql(
                f"delete from {RAW.full_name}.branch_{branch} as t "
                f"where {' or '.join(f'({part.condition})' for part in parts)}"
            )
        publish.append(rows, RAW, branch, properties)
        _audit(spark, branch, again, before.count())
        publish.fast_forward(spark, RAW.full_name, branch)


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
