"""Checks of raw and events: missing, duplicated and unreadable messages and records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

from pyspark.sql import Row
from pyspark.sql import functions as F

from spark_jobs.checks import compared
from spark_jobs.checks.check import QUEUE_ENTITY, Measured, Run, check
from spark_jobs.checks.compared import QUEUE, Epoch, literal, queue_of
from spark_jobs.lake.offsets import Position, Queue
from spark_jobs.lake.tables import EVENTS, INGEST_GAPS, RAW
from spark_jobs.trace.audit import Compared

_integrity = partial(check, kind="integrity", stage="merge", entity=QUEUE_ENTITY, of_new_messages=True)
_messaging = partial(check, kind="messaging", stage="merge", severity="warning", entity="cluster/topic")


@_integrity(RAW.name, "{value} offset(s) of {entity} are missing or stored twice in raw")
def offsets_contiguous(run: Run) -> Iterator[Measured]:
    """An offset of a queue is missing and not recorded in `ops.ingest_gaps`, or is stored twice.

    Measured per queue: missing offsets and duplicate rows.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for each in run.raw_offsets.epochs:
        missing = each.last - each.first + 1 - each.offsets - _in_gaps(run.gaps, each)
        twice = each.messages - each.offsets
        text = f"{each.offsets} of the offsets {each.first} to {each.last} of epoch {each.epoch}"
        text += f": {missing} are missing, {twice} rows are duplicates"
        found.setdefault(str(each.queue), []).append((abs(missing) + twice, text))
    for queue, texts in sorted(found.items()):
        wrong = sum(count for count, _ in texts)
        yield Measured(queue, wrong, "; ".join(text for _, text in texts), partition=compared.part(run))


@_integrity(RAW.name, "the committed offset of {entity} in raw is {value} away from its data")
def raw_offsets_match_data(run: Run) -> Iterator[Measured]:
    """The committed offset of a queue in raw is not the end of its data and recorded gaps.

    Measured per queue: the difference.
    """
    newest = {each.queue: each for each in sorted(run.raw_offsets.epochs, key=lambda each: each.epoch)}
    for queue, each in sorted(newest.items()):
        position = run.raw_offsets.positions.get(queue, Position(next=0))
        epoch, last = each.epoch, each.last
        after = [gap.to_offset for gap in run.gaps if _of(gap, each)]
        ends = [last + 1, *(end for end in after if end > last)]
        if position.epoch > epoch:  # reset, and nothing read since
            ends, epoch, last = [0, position.next], position.epoch, -1
        off = min(abs(position.next - end) for end in ends)
        off += abs(position.epoch - epoch)
        yield Measured(
            str(queue),
            off,
            f"the committed offset is {position.next} of epoch {position.epoch}, the data ends at "
            f"{last} of epoch {epoch}",
        )


@_integrity(EVENTS.name, "the committed offset of {entity} in events is {value} away from its data")
def events_offsets_match_data(run: Run) -> Iterator[Measured]:
    """Events has records after the committed offset of a queue, or that offset is after the committed offset of raw.

    Measured per queue: the sum of both differences.
    """
    events, records = compared.published(run, EVENTS)
    raw, _ = compared.published(run, RAW)  # after events: a concurrent ingest only moves it ahead
    last_of = F.max(F.struct("epoch", "queue_offset")).alias("last")
    rows = compared.messages(records, run, compared.after(events, compared.ranges(run, events)))
    # As a rule new messages have no record behind the committed offset.
    has_some = run.compared_from is None or not rows.isEmpty()
    found = rows.groupBy(*QUEUE).agg(last_of).collect() if has_some else []
    ends = {queue_of(row): row["last"] for row in found}
    for queue in sorted(set(ends) | set(events)):
        position, source = events.get(queue, Position(next=0)), raw.get(queue, Position(next=0))
        last = ends.get(queue, Row(epoch=position.epoch, queue_offset=position.next - 1))
        beyond = max(0, last.queue_offset + 1 - position.next) if last.epoch == position.epoch else 0
        ahead = max(0, position.next - source.next) if source.epoch == position.epoch else 0
        younger = max(0, last.epoch - position.epoch) + max(0, position.epoch - source.epoch)
        is_after = (last.epoch, last.queue_offset) >= (position.epoch, position.next)
        yield Measured(
            str(queue),
            beyond + ahead + younger,
            f"the committed offset is {position.next} of epoch {position.epoch}, that of raw {source.next} of {source.epoch}; "
            + (
                f"records follow up to {last.queue_offset} of epoch {last.epoch}"
                if is_after
                else "no record follows"
            ),
        )


@_integrity(EVENTS.name, "{value} message(s) of {entity} are not the same in raw and in events")
def raw_is_in_events(run: Run) -> Iterator[Measured]:
    """Events has too few or duplicate records of a merged message, or has records of a message that raw does not have.

    Measured per queue: such messages. A message must have at least the `min_records` that the extraction counted.
    """
    found: dict[Queue, list[Compared]] = {}
    for each in compared.records_compared(run):
        found.setdefault(each.range.queue, []).append(each)
    for queue, parts in sorted(found.items()):
        text = f"{sum(each.messages for each in parts)} messages: {sum(each.short for each in parts)} lack records in events, "
        text += f"{sum(each.twice for each in parts)} have duplicate records, "
        text += f"{sum(each.strange for each in parts)} are only in events"
        yield Measured(str(queue), sum(each.wrong for each in parts), text, partition=compared.part(run))


@_messaging(RAW.name, "the bodies of {value} message(s) of {topic} could not be read")
def body_errors(run: Run) -> Iterator[Measured]:
    """The body of a trace message could not be read.

    Measured per cluster and trace topic: such messages.
    """
    since = literal(run.now - timedelta(hours=run.settings.checks.window_hours))
    rows = (
        compared.spark(run)
        .table(RAW.full_name)
        .where(f"ingested_at >= {since} and (store_time >= {since} or store_time is null)")
        .where("body_error is not null")
        .groupBy("cluster", "trace_topic")
        .agg(F.count("*").alias("messages"), F.max("body_error").alias("reason"))
        .collect()
    )
    for row in rows:
        yield Measured(
            f"{row.cluster}/{row.trace_topic}", row.messages, f"{row.messages} messages: {row.reason}"
        )


@check(
    INGEST_GAPS.name,
    "the broker deleted {value} unread message(s) of {entity}",
    kind="freshness",
    stage="merge",
    entity=QUEUE_ENTITY,
)
def ingest_gaps(run: Run) -> Iterator[Measured]:
    """The broker deleted messages of a queue before they were read.

    Measured per queue: their number, if the gap was detected in the last `window_hours`.
    """
    since = run.now - timedelta(hours=run.settings.checks.window_hours)
    found: dict[str, int] = {}
    for row in (gap for gap in run.gaps if gap.detected_at >= since):
        found[str(queue_of(row))] = found.get(str(queue_of(row)), 0) + row.to_offset - row.from_offset
    for queue, offsets in sorted(found.items()):
        yield Measured(queue, offsets, f"{offsets} trace messages are lost", partition=f"since {since:%F %T}")


def _in_gaps(gaps: list[Row], epoch: Epoch) -> int:
    """Number of offsets of recorded gaps between the first and the last offset of the epoch."""
    spans = [
        (max(gap.from_offset, epoch.first), min(gap.to_offset, epoch.last + 1))
        for gap in gaps
        if _of(gap, epoch)
    ]
    return sum(end - start for start, end in spans if end > start)


def _of(gap: Row, epoch: Epoch) -> bool:
    return queue_of(gap) == epoch.queue and gap.epoch == epoch.epoch
