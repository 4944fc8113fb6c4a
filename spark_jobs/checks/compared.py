"""Which messages of raw and events the integrity checks compare: new ones, or all that were stored in the last days.

After a merge, and before a publication of the marts, they compare the messages from `Run.compared_from` on: their cost follows
what is new. After a merge they use what its audit has found. Once a day, and while one of these checks has an open alert, they
compare all messages that were stored in the last `checks.integrity_days`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.checks.check import Run
from spark_jobs.lake import publish
from spark_jobs.lake.catalog import head, lake, rewrites_since
from spark_jobs.lake.offsets import Positions, Queue, Range, read_offsets
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.tables import EVENTS, INGEST_GAPS, RAW, TRACE_MESSAGE_KEY, Table
from spark_jobs.trace.audit import Audit, Compared, compare
from spark_jobs.trace.merge import END_OF_EPOCH, pending

QUEUE = TRACE_MESSAGE_KEY[:4]
QUEUE_EPOCH = TRACE_MESSAGE_KEY[:5]


@dataclass(frozen=True)
class Epoch:
    """The compared messages of an epoch of a queue in raw.

    Attributes:
        queue: the queue.
        epoch: its epoch.
        first: offset of the first message; of new messages, the first offset that was not compared before.
        last: offset of the last message; `first - 1` if there are none.
        messages: number of rows.
        offsets: number of distinct offsets.
    """

    queue: Queue
    epoch: int
    first: int
    last: int
    messages: int = 0
    offsets: int = 0


@dataclass(frozen=True)
class RawOffsets:
    """What two checks compare: one query of raw, without the messages that the audit of a merge has compared.

    Attributes:
        positions: the committed offsets.
        epochs: those with messages that are compared, and those that should have some.
    """

    positions: Positions
    epochs: list[Epoch]

    @classmethod
    def of(cls, run: Run) -> RawOffsets:
        """Query it."""
        positions, raw = published(run, RAW)
        new = ranges(run, positions, open_end=True)
        rest, audited = (new, []) if new is None else _not_audited(new, _audit(run))
        rows = messages(raw, run, rest)
        # As a rule there is nothing behind the audited offsets, and to look for one row is cheaper than to group none.
        found = [] if audited and rows.isEmpty() else _epochs(rows)
        return cls(positions, found if new is None else _from_the_start([*audited, *found], new, run))


def _epochs(rows: DataFrame) -> list[Epoch]:
    """Query the epochs of rows of raw."""
    found = rows.groupBy(*QUEUE_EPOCH).agg(
        F.min("queue_offset").alias("first"),
        F.max("queue_offset").alias("last"),
        F.count("*").alias("messages"),
        F.countDistinct("queue_offset").alias("offsets"),
    )
    return [
        Epoch(queue_of(row), row.epoch, row["first"], row["last"], row.messages, row.offsets)
        for row in found.collect()
    ]


def _audit(run: Run) -> Audit | None:
    """That of the merge before the checks, unless messages of raw were changed or deleted since."""
    audit = run.audit
    if audit is None or audit.raw_head is None or rewrites_since(run.settings, RAW, audit.raw_head):
        return None
    return audit


def _not_audited(new: list[Range], audit: Audit | None) -> tuple[list[Range], list[Epoch]]:
    """What is left to query of the ranges behind the offsets that the audit has compared; and the epochs that it found."""
    if audit is None:
        return new, []
    done = {(each.queue, each.epoch, each.start): each for each in audit.ranges}
    compared = {each.range: each for each in audit.compared}
    rest, found = [], []
    for each in new:
        audited = done.get((each.queue, each.epoch, each.start))
        rest.append(replace(each, start=audited.end) if audited else each)
        had = compared.get(audited) if audited else None
        if had and had.first is not None and had.last is not None:
            found.append(Epoch(each.queue, each.epoch, had.first, had.last, had.rows, had.messages))
    return rest, found


def _joined(earlier: Epoch, later: Epoch) -> Epoch:
    messages, offsets = earlier.messages + later.messages, earlier.offsets + later.offsets
    return replace(earlier, last=later.last, messages=messages, offsets=offsets)


def _from_the_start(found: list[Epoch], new: list[Range], run: Run) -> list[Epoch]:
    """Epochs that go on where they were compared before start there, also those of which nothing was found."""
    known: dict[tuple[Queue, int], Epoch] = {}
    for each in found:
        key = each.queue, each.epoch
        known[key] = _joined(known[key], each) if key in known else each
    before = run.compared_from or {}
    for start in new:
        key, position = (start.queue, start.epoch), before.get(start.queue)
        if position is not None and position.epoch == start.epoch and not position.unanswered:
            known[key] = replace(known.get(key, Epoch(*key, start.start, start.start - 1)), first=start.start)
    return list(known.values())


def gaps(run: Run) -> list[Row]:
    """The rows of `ops.ingest_gaps`."""
    rows = lake(run.settings).load_table(INGEST_GAPS.name).scan().to_arrow().to_pylist()
    return [Row(**row) for row in rows]


def published(run: Run, table: Table) -> tuple[Positions, DataFrame]:
    """The committed offsets and the rows of one snapshot of main, also during concurrent publications."""
    committed = read_offsets(spark(run), run.settings, table)
    while committed.head != head(run.settings, table):
        committed = read_offsets(spark(run), run.settings, table)
    return committed.positions, publish.at_snapshot(spark(run), table, committed.head)


def ranges(run: Run, positions: Positions, open_end: bool = False) -> list[Range] | None:
    """The offsets of new messages; None if all recent messages are compared.

    Args:
        run: what was compared before.
        positions: the committed offsets.
        open_end: with what is behind the committed offsets, where no message should be.
    """
    if run.compared_from is None:
        return None
    new = pending(positions, run.compared_from)
    return [replace(each, end=END_OF_EPOCH) for each in new] if open_end else new


def records_compared(run: Run) -> tuple[Compared, ...]:
    """The compared messages of raw and their records in events; those of the audit if events is as the merge left it."""
    positions, events = published(run, EVENTS)
    merged = ranges(run, positions)
    if merged is not None:
        audit = _audit(run)
        if audit and audit.head == head(run.settings, EVENTS) and [*audit.ranges] == merged:
            return audit.compared
        return compare(published(run, RAW)[1], events, merged)
    raw, everything = published(run, RAW)[1], pending(positions, {})
    since = first(rows_in(raw, everything), run)
    # From the first message of raw: older ones may be in events only, whose retention is longer.
    return compare(recent(raw, run, since), recent(events, run, since), everything)


def after(positions: Positions, new: list[Range] | None) -> list[Range] | None:
    """What is behind the committed offsets of the queues of these ranges; None for None. Iceberg reads few files for it."""
    if new is None:
        return None
    queues = {each.queue: positions[each.queue] for each in new}
    return [Range(queue, at.epoch, at.next, END_OF_EPOCH) for queue, at in queues.items()]


def messages(rows: DataFrame, run: Run, new: list[Range] | None) -> DataFrame:
    """The rows of raw or events that are compared."""
    return recent(rows, run, first(rows, run)) if new is None else rows_in(rows, new)


def first(rows: DataFrame, run: Run) -> DataFrame:
    """Per epoch of a queue, the first offset stored in the last `integrity_days`."""
    since = rows.where(f"store_time >= {literal(_since(run))}")
    return since.groupBy(*QUEUE_EPOCH).agg(F.min("queue_offset").alias("first_recent"))


def recent(rows: DataFrame, run: Run, first: DataFrame) -> DataFrame:
    """Messages from `first` on; messages that could not be parsed have no store time."""
    return (
        rows.where(f"store_time >= {literal(_since(run))} or store_time is null")
        .join(F.broadcast(first), QUEUE_EPOCH, "inner")
        .where("queue_offset >= first_recent")
        .drop("first_recent")
    )


def part(run: Run) -> str:
    """What is compared, for the check's result."""
    return "new messages" if run.compared_from is not None else f"since {_since(run):%F %T}"


def spark(run: Run) -> SparkSession:
    assert run.spark is not None
    return run.spark


def literal(time: datetime) -> str:
    return f"timestamp '{time:%Y-%m-%d %H:%M:%S}'"


def queue_of(row: Row) -> Queue:
    return Queue(*(row[name] for name in QUEUE))


def _since(run: Run) -> datetime:
    return run.now - timedelta(days=run.settings.checks.integrity_days)
