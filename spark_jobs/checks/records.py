"""Checks of raw and events: missing, duplicated and unreadable messages and records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.checks.check import QUEUE_ENTITY, Measured, Run, check, rate
from spark_jobs.lake.catalog import head, lake
from spark_jobs.lake.offsets import Position, Positions, Queue, Range, read_offsets
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.tables import EVENTS, INGEST_GAPS, RAW, TRACE_MESSAGE_KEY, Table
from spark_jobs.trace.merge import min_records, pending

QUEUE = TRACE_MESSAGE_KEY[:4]
QUEUE_EPOCH = TRACE_MESSAGE_KEY[:5]
# Records are counted for messages that were read in this time: else the bodies of days would be read after every merge.
COUNTED = timedelta(hours=1)

_integrity = partial(check, kind="integrity", stage="merge", entity=QUEUE_ENTITY)
_messaging = partial(check, kind="messaging", stage="merge", severity="warning", entity="cluster/topic")


@dataclass(frozen=True)
class RawOffsets:
    """What two checks compare: one query of raw.

    Attributes:
        positions: the committed offsets.
        epochs: per epoch of a queue, of the messages that were stored in the last `integrity_days`: the `first` and `last`
            offset, the number of `messages` and of distinct `offsets`.
    """

    positions: Positions
    epochs: list[Row]

    @classmethod
    def of(cls, run: Run) -> RawOffsets:
        """Query it."""
        positions, raw = _published(run, RAW)
        since = _since(run)
        epochs = (
            _recent(raw, since, _first(raw, since))
            .groupBy(*QUEUE_EPOCH)
            .agg(
                F.min("queue_offset").alias("first"),
                F.max("queue_offset").alias("last"),
                F.count("*").alias("messages"),
                F.countDistinct("queue_offset").alias("offsets"),
            )
            .collect()
        )
        return cls(positions, epochs)


def gaps(run: Run) -> list[Row]:
    """The rows of `ops.ingest_gaps`."""
    rows = lake(run.settings).load_table(INGEST_GAPS.name).scan().to_arrow().to_pylist()
    return [Row(**row) for row in rows]


@_integrity(RAW.name, "{value} offset(s) of {entity} are missing or stored twice in raw")
def offsets_contiguous(run: Run) -> Iterator[Measured]:
    """An offset of a queue is missing and not recorded in `ops.ingest_gaps`, or is stored twice.

    Measured per queue: missing offsets and duplicate rows.
    """
    since = _since(run)
    found: dict[str, list[tuple[int, str]]] = {}
    for each in run.raw_offsets.epochs:
        missing = each["last"] - each["first"] + 1 - each.offsets - _in_gaps(run.gaps, each)
        twice = each.messages - each.offsets
        text = f"{each.offsets} of the offsets {each['first']} to {each['last']} of epoch {each.epoch}"
        text += f": {missing} are missing, {twice} rows are duplicates"
        found.setdefault(str(_queue(each)), []).append((abs(missing) + twice, text))
    for queue, texts in sorted(found.items()):
        wrong = sum(count for count, _ in texts)
        yield Measured(queue, wrong, "; ".join(text for _, text in texts), partition=f"since {since:%F %T}")


@_integrity(RAW.name, "the committed offset of {entity} in raw is {value} away from its data")
def raw_offsets_match_data(run: Run) -> Iterator[Measured]:
    """The committed offset of a queue in raw is not the end of its data and recorded gaps.

    Measured per queue: the difference.
    """
    newest = {_queue(each): each for each in sorted(run.raw_offsets.epochs, key=lambda each: each.epoch)}
    for queue, each in sorted(newest.items()):
        position = run.raw_offsets.positions.get(queue, Position(next=0))
        epoch, last = each.epoch, each["last"]
        after = [gap.to_offset for gap in run.gaps if _of(gap, queue, epoch)]
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
    events, records = _published(run, EVENTS)
    raw, _ = _published(run, RAW)  # after events: a concurrent ingest only moves it ahead
    ends = _last(records, _since(run))
    for queue in sorted(set(ends) | set(events)):
        position, source = events.get(queue, Position(next=0)), raw.get(queue, Position(next=0))
        last = ends.get(queue, Row(epoch=position.epoch, queue_offset=position.next - 1))
        beyond = max(0, last.queue_offset + 1 - position.next) if last.epoch == position.epoch else 0
        ahead = max(0, position.next - source.next) if source.epoch == position.epoch else 0
        younger = max(0, last.epoch - position.epoch) + max(0, position.epoch - source.epoch)
        yield Measured(
            str(queue),
            beyond + ahead + younger,
            f"the committed offset is {position.next} of epoch {position.epoch}, that of raw {source.next} of {source.epoch}; "
            f"the records end at {last.queue_offset} of epoch {last.epoch}",
        )


@_integrity(EVENTS.name, "{value} message(s) of {entity} are not the same in raw and in events")
def raw_is_in_events(run: Run) -> Iterator[Measured]:
    """Events has too few or duplicate records of a merged message, or has records of a message that raw does not have.

    Measured per queue: such messages. Records are counted only for messages that were read recently, as counting reads their
    bodies; an older message must have at least one record.
    """
    since = _since(run)
    positions, records = _published(run, EVENTS)
    merged = pending(positions, {})
    raw = rows_in(_published(run, RAW)[1], merged)
    first = _first(raw, since)
    raw = _recent(raw, since, first)
    is_old = F.expr(f"coalesce(ingested_at < {_literal(run.now - COUNTED)}, false)")
    nothing, no_record = F.lit(None).cast("int"), F.lit(None).cast("int").alias("record_index")
    rows = (
        raw.where(~is_old)
        .select(*TRACE_MESSAGE_KEY, F.lit(True).alias("in_raw"), min_records().alias("least"), no_record)
        # Their bodies are not read.
        .union(raw.where(is_old).select(*TRACE_MESSAGE_KEY, F.lit(True), nothing, no_record))
        # From the first message of raw: older ones may be in events only, whose retention is longer.
        .union(
            _recent(rows_in(records, merged), since, first).select(
                *TRACE_MESSAGE_KEY, F.lit(False), nothing, "record_index"
            )
        )
    )
    messages = rows.groupBy(*TRACE_MESSAGE_KEY).agg(
        F.max("in_raw").alias("in_raw"),
        F.max("least").alias("least"),
        F.count("record_index").alias("records"),
        F.count_distinct("record_index").alias("positions"),
    )
    alone_in_raw = F.when(F.expr("in_raw and least is null and records = 0"), F.col("queue_offset"))
    epochs = (
        messages.groupBy(*QUEUE_EPOCH)
        .agg(
            F.count_if("in_raw").alias("messages"),
            F.count_if(F.expr("least > positions")).alias("short"),
            F.count_if(F.expr("in_raw and records > positions")).alias("twice"),
            F.count_if(~F.col("in_raw")).alias("strange"),
            F.min(alone_in_raw).alias("first"),
            F.max(alone_in_raw).alias("last"),
        )
        .collect()
    )
    # Most messages that are only in raw hold no record; bodies are read only now, and only of those ranges.
    spans = [Range(_queue(r), r.epoch, r["first"], r["last"] + 1) for r in epochs if r["first"] is not None]
    alone = (
        rows_in(raw.where(is_old), spans)
        .join(records, TRACE_MESSAGE_KEY, "left_anti")
        .where(min_records() > 0)
    )
    lost = alone.groupBy(*QUEUE).agg(F.count("*").alias("short")).collect() if spans else []
    found: dict[str, Counter[str]] = {}
    for row in [*epochs, *lost]:
        counted = {name: row[name] for name in ("messages", "short", "twice", "strange") if name in row}
        found.setdefault(str(_queue(row)), Counter()).update(counted)
    for queue, counts in sorted(found.items()):
        text = f"{counts['messages']} messages: {counts['short']} lack records in events, "
        text += f"{counts['twice']} have duplicate records, {counts['strange']} are only in events"
        wrong = counts["short"] + counts["twice"] + counts["strange"]
        yield Measured(queue, wrong, text, partition=f"since {since:%F %T}")


@_messaging(EVENTS.name, "{value} of the records of {topic} are invalid", limit="invalid_rate", unit="share")
def invalid_rate(run: Run) -> Iterator[Measured]:
    """Too many records of a trace topic match no layout.

    Measured per cluster and trace topic: the share of Invalid records.
    """
    since = run.now - timedelta(hours=run.settings.checks.window_hours)
    rows = (
        _spark(run)
        .table(EVENTS.full_name)
        .where(f"store_time >= {_literal(since)}")
        .groupBy("cluster", "trace_topic")
        .agg(F.count_if(F.col("record_type") == "Invalid").alias("invalid"), F.count("*").alias("records"))
        .collect()
    )
    for row in rows:
        entity = f"{row.cluster}/{row.trace_topic}"
        yield rate(entity, row.invalid, row.records, "records are Invalid", run.settings)


@_messaging(RAW.name, "the bodies of {value} message(s) of {topic} could not be read")
def body_errors(run: Run) -> Iterator[Measured]:
    """The body of a trace message could not be read.

    Measured per cluster and trace topic: such messages.
    """
    since = _literal(run.now - timedelta(hours=run.settings.checks.window_hours))
    rows = (
        _spark(run)
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
        found[str(_queue(row))] = found.get(str(_queue(row)), 0) + row.to_offset - row.from_offset
    for queue, offsets in sorted(found.items()):
        yield Measured(queue, offsets, f"{offsets} trace messages are lost", partition=f"since {since:%F %T}")


def _spark(run: Run) -> SparkSession:
    assert run.spark is not None
    return run.spark


def _published(run: Run, table: Table) -> tuple[Positions, DataFrame]:
    """The committed offsets and the rows of one snapshot of main, also during concurrent publications."""
    committed = read_offsets(_spark(run), run.settings, table)
    while committed.head != head(run.settings, table):
        committed = read_offsets(_spark(run), run.settings, table)
    rows = _spark(run).read
    if committed.head is not None:
        rows = rows.option("versionAsOf", committed.head)
    return committed.positions, rows.table(table.full_name)


def _since(run: Run) -> datetime:
    return run.now - timedelta(days=run.settings.checks.integrity_days)


def _literal(time: datetime) -> str:
    return f"timestamp '{time:%Y-%m-%d %H:%M:%S}'"


def _first(rows: DataFrame, since: datetime) -> DataFrame:
    """Per epoch of a queue, the first offset stored since then."""
    recent = rows.where(f"store_time >= {_literal(since)}")
    return recent.groupBy(*QUEUE_EPOCH).agg(F.min("queue_offset").alias("first_recent"))


def _recent(rows: DataFrame, since: datetime, first: DataFrame) -> DataFrame:
    """Messages from `first` on; messages that could not be parsed have no store time."""
    return (
        rows.where(f"store_time >= {_literal(since)} or store_time is null")
        .join(F.broadcast(first), QUEUE_EPOCH, "inner")
        .where("queue_offset >= first_recent")
        .drop("first_recent")
    )


def _last(rows: DataFrame, since: datetime) -> dict[Queue, Row]:
    """Per queue, the last epoch and offset of the messages stored since then."""
    last = F.max(F.struct("epoch", "queue_offset")).alias("last")
    found = _recent(rows, since, _first(rows, since)).groupBy(*QUEUE).agg(last).orderBy(*QUEUE)
    return {_queue(row): row["last"] for row in found.collect()}


def _queue(row: Row) -> Queue:
    return Queue(*(row[name] for name in QUEUE))


def _of(gap: Row, queue: Queue, epoch: int) -> bool:
    return _queue(gap) == queue and gap.epoch == epoch


def _in_gaps(gaps: list[Row], epoch: Row) -> int:
    """Number of offsets of recorded gaps between the first and the last offset of the epoch."""
    spans = [
        (max(gap.from_offset, epoch["first"]), min(gap.to_offset, epoch["last"] + 1))
        for gap in gaps
        if _of(gap, _queue(epoch), epoch.epoch)
    ]
    return sum(end - start for start, end in spans if end > start)
