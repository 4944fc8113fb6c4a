"""The output of maintenance: one line per table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from spark_jobs.maintenance.state import MB
from spark_jobs.maintenance.table import MaintenanceResult

_console = Console(stderr=True, width=150)


def kept(done: list[MaintenanceResult], dry_run: bool, seconds: float) -> None:
    """Print the state of each table and what was done to it, or would be."""
    table = Table(title="would be done" if dry_run else "done", title_justify="left")
    table.add_column("table")
    for heading in (
        *("files", "MB", "rows dropped", "before (UTC)", "files compacted", "MB", "into"),
        *("manifests", "rewritten", "snapshots", "expired", "branches dropped", "orphan files"),
    ):
        table.add_column(heading, justify="right")
    for each in done:
        state, dropped, compacted = each.state, each.dropped, each.compacted
        table.add_row(
            state.table,
            *(str(state.files), f"{state.size / MB:.1f}"),
            *((str(dropped.rows), f"{dropped.before:%Y-%m-%d}") if dropped else ("", "")),
            *(_some(compacted.files), f"{compacted.size / MB:.1f}" if compacted.files else ""),
            *(_some(compacted.into), str(state.manifests), _some(each.manifests)),
            *(
                str(state.snapshots),
                _some(each.expired),
                _some(len(state.left_branches)),
                _some(each.orphans),
            ),
        )
    _console.print(table)
    for each in done:
        if each.refused:
            _console.print(f"[bold yellow]left for the next run[/] {each.state.table}: {each.refused}")
    _console.print(f"{len(done)} tables in {seconds:.1f} s", highlight=False)


def failed(table: str, error: Exception) -> None:
    """Print in one line why a table could not be maintained."""
    why = " ".join(
        str(error).strip().splitlines()[:2]
    )  # the first line of a Java error only says that it is one
    _console.print(f"[bold red]failed[/] {table}: {type(error).__name__}: {why}", highlight=False)


def _some(count: int) -> str:
    return str(count) if count else ""
