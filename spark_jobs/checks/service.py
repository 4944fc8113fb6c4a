"""Checks of the service against the clock and the brokers, run by the watchdog without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.snapshots import Operation

from spark_jobs.checks.brokers import QueueState
from spark_jobs.checks.check import QUEUE_ENTITY, Measured, Run, check
from spark_jobs.lake.catalog import lake, summary_with
from spark_jobs.lake.offsets import (
    CHANGE_SEQ,
    OFFSETS,
    CommittedOffsets,
    Queue,
    committed_positions,
    watermarks,
)
from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.mart_build import due, projects
from spark_jobs.mart_build.definitions import known_in
from spark_jobs.mart_build.inputs import WATERMARKS, WITH_INPUTS, Published

_silent = partial(check, kind="freshness", stage="watchdog", unit="minutes")
_stale = partial(_silent, entity="cluster")
_queues = partial(check, RAW.name, kind="freshness", stage="brokers", entity=QUEUE_ENTITY)


@_stale(RAW.name, "the trace topics were last read completely {value} ago", limit="freshness_raw_minutes")
def freshness_raw(run: Run) -> Iterator[Measured]:
    """A queue of a cluster has not been read completely for too long.

    Measured per cluster: minutes since the time up to which all of its queues were read.
    """
    return _ages(run, watermarks(committed_positions(run.settings, RAW)), "was read")


@_stale(
    EVENTS.name, "trace messages were last merged completely {value} ago", limit="freshness_events_minutes"
)
def freshness_events(run: Run) -> Iterator[Measured]:
    """Messages of a cluster that were read have not been merged for too long.

    Measured per cluster: minutes since the time up to which its records were merged.
    """
    return _ages(run, watermarks(committed_positions(run.settings, EVENTS)), "is in events")


@_stale("marts", "the published marts end {value} ago", severity="warning", limit="freshness_marts_minutes")
def freshness_marts(run: Run) -> Iterator[Measured]:
    """The watermark of the published marts is too old.

    Measured per cluster: minutes since the watermark.
    """
    published = Published.of(run.settings)
    marks = published.watermarks if published else {}
    if not marks and not _merged(run).change_seq:
        return iter(())  # there is nothing to build
    ms = {cluster: _ms(datetime.fromisoformat(at).replace(tzinfo=UTC)) for cluster, at in marks.items()}
    return _ages(run, ms, "is in the marts")


@_silent(RAW.name, "no commit to raw or events for {value}", limit="ingest_silent_minutes")
def ingest_silent(run: Run) -> Iterator[Measured]:
    """There was no commit to raw or to events for too long.

    Measured: minutes since the last commit to either, whichever is older; each run commits to both.
    """
    return iter([_silence(run, OFFSETS, RAW.name, EVENTS.name)])


@_silent("marts", "no marts were published for {value}", limit="marts_silent_minutes")
def marts_silent(run: Run) -> Iterator[Measured]:
    """No marts were published for too long.

    Measured: minutes since the last publication; it passes while a build would change nothing.
    """
    silence = _silence(run, WATERMARKS, WITH_INPUTS)
    if silence.value is not None and silence.value <= run.settings.checks.marts_silent_minutes:
        yield silence
        return
    published, merged = Published.of(run.settings), _merged(run)
    plan = projects.plan(run.settings, merged, published, known_in(run.settings.home / "dbt"))
    inputs = plan.inputs if plan else None
    if not merged.change_seq and silence.verdict == "never":
        yield replace(silence, verdict="pass", detail="nothing was merged yet")
    elif not merged.change_seq:
        yield silence
    elif inputs is None:
        yield replace(silence, detail=f"{silence.detail}; files of dbt_project or limits have changed")
    elif why := due.reason(run.settings, inputs, published):
        yield replace(silence, detail=f"{silence.detail}; a build is due: {why}")
    else:
        yield replace(silence, verdict="pass", detail=f"{silence.detail}; nothing has changed since then")


@_queues("{value} messages wait on {entity}", severity="warning", limit="lag_messages")
def lag(run: Run) -> Iterator[Measured]:
    """Too many messages of a queue are unread, or the brokers of a cluster cannot be queried.

    Measured per queue: messages that the broker has and raw does not; a cluster fails if not all of it could be queried.
    """
    for cluster, answers in run.brokers.items():
        for queue, seen in answers.seen.items():
            read, end = seen.position.next - 1, seen.bounds.max_offset - 1
            text = f"read up to offset {read}, the broker ends at {end}"
            if seen.bounds.from_master and end < read:
                advice = f"if so, `make ingest-reset QUEUE={queue}` reads it from the start; what was read before stays"
                why = f"the topic was deleted and recreated, or the broker lost its store: {text}; {advice}"
                yield Measured(str(queue), None, why)
            else:
                yield Measured(str(queue), seen.unread, text)
        yield from _unknown(answers.unseen)
        if answers.failures:
            yield Measured(cluster, None, "; ".join(answers.failures)[:1000])
        else:
            yield Measured(cluster, 0, "all of its brokers answered", "pass")


@_queues(
    "the broker deletes unread messages of {entity} in {value}",
    limit="retention_headroom_hours",
    fails="below",
    unit="hours",
)
def retention_headroom(run: Run) -> Iterator[Measured]:
    """The broker will soon delete unread messages of a queue.

    Measured per queue: hours until the broker deletes the first unread message.
    """
    for answers in run.brokers.values():
        for queue, seen in answers.seen.items():
            yield _headroom(run, queue, seen)
        yield from _unknown(answers.unseen)


def _headroom(run: Run, queue: Queue, seen: QueueState) -> Measured:
    hours = run.settings.checks.broker_retention_hours
    position, start = seen.position, seen.first_unread
    if not position.unanswered and position.next < seen.bounds.min_offset:
        gone = seen.bounds.min_offset - position.next
        return Measured(
            str(queue), 0.0, f"{gone} messages from offset {position.next} have already been deleted"
        )
    if not seen.unread:
        return Measured(str(queue), hours, "no message is unread")
    if seen.stored_at is None:
        return Measured(str(queue), None, f"the broker did not return offset {start}", "unknown")
    age = (_ms(run.now) - seen.stored_at) / 3_600_000
    text = f"offset {start} was stored {age:.1f} h ago; the broker keeps messages for {hours:g} h"
    return Measured(str(queue), hours - age, text)


def _unknown(queues: list[Queue]) -> Iterator[Measured]:
    for queue in queues:
        yield Measured(str(queue), None, "its broker could not be queried", "unknown")


def _merged(run: Run) -> CommittedOffsets:
    """The committed offsets of events."""
    summary = summary_with(run.settings, EVENTS, OFFSETS)
    return CommittedOffsets(committed_positions(run.settings, EVENTS), int(summary.get(CHANGE_SEQ, 0)))


def _ages(run: Run, marks: dict[str, int], what: str) -> Iterator[Measured]:
    for cluster in sorted(each.name for each in run.settings.clusters):
        if not marks.get(cluster):
            yield Measured(cluster, None, f"nothing of it {what} yet, or a queue of it never was", "never")
            continue
        complete_to = datetime.fromtimestamp(marks[cluster] / 1000, UTC)
        minutes = (run.now - complete_to).total_seconds() / 60
        yield Measured(cluster, minutes, f"what was stored up to {complete_to:%F %T} UTC {what}")


def _silence(run: Run, carried: str, *tables: str) -> Measured:
    """Minutes since the last publication of the table that was published least recently, by snapshots with the property.

    A snapshot is published when it becomes that of main: those of other branches do not count.
    """
    published: dict[str, datetime] = {}
    for table in tables:
        try:
            metadata = lake(run.settings).load_table(table).metadata
        except NoSuchTableError:
            times = []
        else:
            carrying = {
                each.snapshot_id
                for each in metadata.snapshots
                if each.summary
                and carried in each.summary.additional_properties
                and each.summary.operation != Operation.REPLACE
            }
            times = [each.timestamp_ms for each in metadata.snapshot_log if each.snapshot_id in carrying]
        if not times:
            return Measured(None, None, f"lake.{table}: nothing was ever published", "never")
        published[f"lake.{table}"] = datetime.fromtimestamp(max(times) / 1000, UTC)
    name, at = min(published.items(), key=lambda each: each[1])
    return Measured(None, (run.now - at).total_seconds() / 60, f"{name} was last published at {at:%F %T} UTC")


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
