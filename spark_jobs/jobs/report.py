"""The output of the ingest jobs: the plan, one line per queue, totals."""

from __future__ import annotations

from dataclasses import astuple
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from spark_jobs.broker_facts.record import Recorded
from spark_jobs.ingest.plan import Plan
from spark_jobs.lake.offsets import Queue

if TYPE_CHECKING:  # `advance_ingest` does not load pyspark
    from spark_jobs.ingest.raw import Written
    from spark_jobs.ingest.reextract import ReextractRange
    from spark_jobs.trace.replay import Replayed

_console = Console(stderr=True, width=140, highlight=False)


def _table(title: str, first: str, *others: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    return Table(
        first, *(Column(name, justify="right") for name in others), title=title, title_justify="left"
    )


def planned(cluster: str, plan: Plan) -> None:
    """Print what will be read of a cluster, and the gaps."""
    count = sum(r.end - r.start for r in plan.ranges)
    _console.print(
        f"plan of {escape(cluster)}: {count} messages from {len(plan.ranges)} of {len(plan.steps)} queues"
    )
    for gap in plan.gaps:
        _console.print(
            f"[bold yellow]gap[/] queue {gap.missing.queue}: offsets {gap.missing.start} to {gap.missing.end - 1} "
            "were deleted by the broker before they were read; recorded in lake.ops.ingest_gaps"
        )


def left_out(queue: Queue, why: str) -> None:
    """Print that a queue could not be read to its planned end and is left out."""
    _console.print(f"[bold red]failed[/] queue {queue} is left out, the others are read: {why}")


def extracted(cluster: str, plan: Plan, written: Written, seconds: float) -> None:
    """Print one line per queue of a cluster (what was read, the lag, complete to), then the totals."""
    table = _table(
        f"extracted from {escape(cluster)}",
        "queue",
        "from",
        "to",
        "messages",
        "MB",
        "lag",
        "complete to (UTC)",
    )
    for step in plan.steps:
        stored = written.queues.get(step.range.queue)
        complete_to = datetime.fromtimestamp(step.position.complete_to / 1000, UTC)
        table.add_row(
            str(step.range.queue),
            str(step.range.start),
            str(step.range.end),
            str(stored.messages if stored else 0),
            f"{(stored.size if stored else 0) / 1e6:.1f}",
            str(step.lag),
            f"{complete_to:%Y-%m-%d %H:%M:%S}",
        )
    _console.print(table)
    rate = ""
    if written.seconds:
        rate = (
            f"read and written in {written.seconds:.1f} s: {written.messages / written.seconds:,.0f} messages/s, "
            f"{written.size / written.seconds / 1e6:.1f} MB/s; "
        )
    _console.print(
        f"{escape(cluster)}: {written.messages} messages, {written.size / 1e6:.1f} MB, in {seconds:.1f} s; {rate}"
        f"lag {sum(step.lag for step in plan.steps)}; {len(plan.failures)} failed"
    )
    for failure in plan.failures.values():
        _console.print(f"[bold red]failed[/] {failure}")


def facts_recorded(cluster: str, recorded: Recorded, seconds: float) -> None:
    """Print how many rows of facts were added, and a line per broker of which something is unknown."""
    added = (
        ", ".join(f"{count} {name.partition('.')[2]}" for name, count in recorded.rows.items()) or "nothing"
    )
    note = "; another run of the cluster was first, so the rest was dropped" if recorded.superseded else ""
    _console.print(f"broker facts of {cluster}: added {added} in {seconds:.1f} s{note}")
    for problem in recorded.problems:
        _console.print(
            f"[bold yellow]unknown[/] broker facts of {escape(problem)} (docs/broker_facts.md)",
            soft_wrap=True,
        )


def facts_failed(cluster: str, error: Exception) -> None:
    """Print that no facts of a cluster were recorded; the extraction goes on."""
    why = str(error).strip().partition("\n")[0]
    _console.print(
        f"[bold red]failed[/] broker facts of {escape(cluster)}: {type(error).__name__}: {escape(why)}. "
        "This does not stop the extraction",
        soft_wrap=True,
    )


def not_waited_for(clusters: list[str]) -> None:
    """Print which clusters are still being read while the merge starts."""
    _console.print(
        f"[bold yellow]slow[/] {escape(', '.join(clusters))}: the records of the other clusters are merged meanwhile",
        soft_wrap=True,
    )


def ingested(unfinished: dict[str, int], failures: dict[str, list[str]]) -> None:
    """Print which clusters failed, and with which the next run goes on: cluster to messages that are left."""
    for cluster, left in unfinished.items():
        _console.print(
            f"[bold yellow]slow[/] {escape(cluster)}: {left} messages were left after the last piece; the next run goes on"
        )
    for reason in (each for reasons in failures.values() for each in reasons):
        _console.print(f"[bold red]failed[/] {escape(reason)}", soft_wrap=True)


def advanced(plans: dict[str, Plan], seconds: float) -> None:
    """Print up to when each cluster is complete now."""
    for cluster, plan in plans.items():
        complete = [step.position.complete_to for step in plan.steps]
        if complete:
            until = datetime.fromtimestamp(min(complete) / 1000, UTC)
            _console.print(
                f"{escape(cluster)}: no new message; complete to {until:%Y-%m-%d %H:%M:%S} UTC",
                soft_wrap=True,
            )
    _console.print(f"nothing to read or to merge: Spark was not started; {seconds:.1f} s")


def merged(records: int, seconds: float) -> None:
    """Print how many records were published."""
    _console.print(f"merged {records} records into lake.events.trace_records in {seconds:.1f} s")


def dropped(before: datetime) -> None:
    """Print that retention has deleted part of the requested time."""
    _console.print(
        f"[bold yellow]deleted by retention[/] messages stored before {before} UTC are left out (lake.ops.retention)"
    )


def replayed_day(done: Replayed) -> None:
    """Print that a day is done: the progress of a long replay."""
    _console.print(f"{done.day}: {done.messages} messages decoded, {done.changed} changed")


def replayed(days: list[Replayed], dry_run: bool) -> None:
    """Print one line per day of what was replaced, or would be, and the totals."""
    if not days:
        _console.print("no messages were stored in that time: nothing to replay")
        return
    counts = (
        "messages",
        "changed",
        "records before",
        "records after",
        "invalid records before",
        "invalid records after",
    )
    table = _table("would be replaced" if dry_run else "replaced", "day (UTC)", *counts)
    rows = [astuple(day) for day in days]
    for row in rows:
        table.add_row(*map(str, row))
    table.add_section()
    table.add_row("total", *(str(sum(row[column] for row in rows)) for column in range(1, len(rows[0]))))
    _console.print(table)


def cluster_failed(cluster: str, error: Exception) -> None:
    """Print that a cluster was not read; the other clusters are."""
    why = str(error).strip().partition("\n")[0]
    _console.print(f"[bold red]failed[/] cluster {escape(cluster)}: {escape(why)}", soft_wrap=True)


def reextracted(done: list[ReextractRange], dry_run: bool) -> None:
    """Print one line per queue of what was read again, or would be."""
    if not done:
        _console.print("the brokers have no message of the request: nothing to read again")
        return
    title = "would be read again" if dry_run else "read again"
    table = _table(
        title, "queue", "requested from", "requested to", "from", "to", "messages", "in raw before"
    )
    for each in done:
        first, end = each.range.start, each.range.end
        numbers = (each.requested_start, each.requested_end, first, end, end - first, each.rows_before)
        table.add_row(str(each.range.queue), *map(str, numbers))
    _console.print(table)
    _console.print(
        "requested offsets that are in no row are no longer on the broker, or were never read: raw keeps their rows"
    )
