"""What the ingestion jobs tell people: the plan, a line a queue, a total."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from spark_jobs.ingest.plan import Plan

_console = Console(stderr=True, width=140)


def planned(plan: Plan) -> None:
    """Print what will be read, and what cannot be."""
    count = sum(r.end - r.start for r in plan.ranges)
    _console.print(f"plan: {count} messages from {len(plan.ranges)} of {len(plan.steps)} queues")
    for gap in plan.gaps:
        _console.print(
            f"[bold yellow]gap[/] queue {gap.missing.queue}: offsets {gap.missing.start} to {gap.missing.end - 1} "
            "were deleted by the broker before they were read; recorded in lake.ops.ingest_gaps"
        )
    for failure in plan.failures.values():
        _console.print(f"[bold red]failed[/] {failure}")


def extracted(plan: Plan, seconds: float) -> None:
    """Print a line a queue: what was read, how far it is complete, what is left."""
    table = Table(title="extracted", title_justify="left")
    for heading in ("queue", "from", "to", "messages", "lag", "complete to (UTC)"):
        table.add_column(heading, justify="left" if heading == "queue" else "right")
    for step in plan.steps:
        complete_to = datetime.fromtimestamp(step.position.complete_to / 1000, UTC)
        table.add_row(
            str(step.range.queue),
            str(step.range.start),
            str(step.range.end),
            str(step.range.end - step.range.start),
            str(step.lag),
            f"{complete_to:%Y-%m-%d %H:%M:%S}",
        )
    _console.print(table)
    count = sum(r.end - r.start for r in plan.ranges)
    _console.print(f"{count} messages in {seconds:.1f} s; {len(plan.failures)} failed", highlight=False)


def merged(records: int, seconds: float) -> None:
    """Print how many records were published."""
    _console.print(
        f"merged {records} records into lake.events.trace_records in {seconds:.1f} s", highlight=False
    )
