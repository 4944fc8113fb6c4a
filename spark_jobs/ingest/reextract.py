"""Re-extract: read offsets again that were read before, and replace their rows in raw.

The committed offsets do not change. Messages that the broker has deleted are not requested, so raw keeps their rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.ingest.plan import Plan
from spark_jobs.ingest.step import Step, raise_if_recreated
from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.lake import publish
from spark_jobs.lake.offsets import (
    OFFSETS,
    RUN_ID,
    CommittedOffsets,
    Positions,
    Queue,
    Range,
    to_json,
)
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.tables import RAW
from spark_jobs.trace.merge import parts_of


@dataclass(frozen=True)
class ReextractRequest:
    """Store times [start, end) in ms for all queues, or offsets [start, end) of one queue."""

    start: int
    end: int
    queue: Queue | None = None


@dataclass(frozen=True)
class ReextractRange:
    """A range of one queue to read again.

    Attributes:
        requested_start: first requested offset.
        requested_end: requested offset to stop before.
        range: the requested offsets that the broker has and that were read before.
        rows_before: number of rows of `range` in raw before.
    """

    requested_start: int
    requested_end: int
    range: Range
    rows_before: int = 0


def plan_reextract(
    source: TopicSource, queues: Iterable[Queue], positions: Positions, request: ReextractRequest
) -> list[ReextractRange]:
    """Plan the ranges to read again.

    Args:
        source: queries the brokers.
        queues: those in the routes of the topics.
        positions: committed offsets of raw.
        request: the requested offsets or times.

    Raises:
        QueueError: a topic was deleted and recreated, so its offsets have different messages now.
        ValueError: the requested queue was never read, or no broker has it; the message lists those that are known.
    """
    known = sorted(queue for queue in set(queues) if queue in positions)
    if request.queue is not None and request.queue not in known:
        names = ", ".join(map(str, known)) or "none"
        raise ValueError(f"queue {request.queue} was never read, or no broker has it; known queues: {names}")
    found = []
    for queue in [request.queue] if request.queue else known:
        position, bounds = positions[queue], source.bounds(queue)
        raise_if_recreated(source, queue, position, bounds)
        start, end = request.start, request.end
        if request.queue is None:
            start, end = source.offset_at(queue, request.start), source.offset_at(queue, request.end)
        first, after = max(start, bounds.min_offset), min(end, bounds.max_offset, position.next)
        if after > first:
            found.append(ReextractRange(start, end, Range(queue, position.epoch, first, after)))
    return found


def as_plan(ranges: list[ReextractRange], committed: CommittedOffsets, planned_at: int) -> Plan:
    """The ranges as a plan that `raw.read` takes; its positions are the committed offsets."""
    steps = [Step(each.range, committed.positions[each.range.queue], lag=0) for each in ranges]
    return Plan(planned_at, steps, {}, dict(committed.positions))


def with_row_counts(spark: SparkSession, ranges: list[ReextractRange], head: int) -> list[ReextractRange]:
    """The ranges with their number of rows in raw at the snapshot `head`."""
    raw = publish.at_snapshot(spark, RAW, head)
    return [replace(each, rows_before=raw.where(each.range.condition()).count()) for each in ranges]


def replace_in_raw(
    spark: SparkSession,
    rows: DataFrame,
    ranges: list[ReextractRange],
    committed: CommittedOffsets,
    run_id: str,
) -> None:
    """Replace the rows that raw has of the same offsets: delete and append on one branch, audit, publish.

    Args:
        spark: the session.
        rows: columns of raw; all messages of the ranges, read when an action runs.
        ranges: as `with_row_counts` returns them.
        committed: offsets of raw that the plan was made from.
        run_id: written to the snapshot that is published.

    Raises:
        publish.PublishConflictError: another writer published first.
        publish.AuditError: the branch does not contain exactly the offsets, or the number of other rows has changed.
    """
    before = publish.at_snapshot(spark, RAW, committed.head)
    parts = parts_of(rows_in(before, [each.range for each in ranges]))
    properties = {OFFSETS: to_json(committed.positions), RUN_ID: run_id}
    with publish.write_audit_publish(spark, RAW, "reextract", committed.head) as branch:
        if parts:
            spark.sql(
                f"delete from {RAW.full_name}.branch_{branch} as t "
                f"where {' or '.join(f'({part.condition})' for part in parts)}"
            )
        publish.append(rows, RAW, branch, properties)
        _audit(spark, branch, ranges, before.count())


def _audit(spark: SparkSession, branch: str, ranges: list[ReextractRange], rows_before: int) -> None:
    written = publish.on_branch(spark, RAW, branch)
    expected = rows_before
    wrong = []
    for each in ranges:
        offsets = each.range.end - each.range.start
        expected += offsets - each.rows_before
        counts = written.where(each.range.condition()).agg(F.count("*"), F.countDistinct("queue_offset"))
        rows, distinct = counts.collect()[0]
        if rows != offsets or distinct != offsets:
            wrong.append(
                f"queue {each.range.queue}: {offsets} offsets from {each.range.start} were read again, "
                f"but raw has {rows} rows of {distinct} offsets"
            )
    if not wrong and (found := written.count()) != expected:
        wrong.append(f"{found} rows in total instead of {expected}")
    if wrong:
        raise publish.AuditError(
            f"{RAW.full_name}: {'; '.join(wrong)}. Nothing was published; run the re-extraction again"
        )
