"""The output of maintenance: one line per table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from spark_jobs.maintenance.state import MB
from spark_jobs.maintenance.table import MaintenanceResult

_console = Console(stderr=True, width=150, highlight=False)


def kept(done: list[MaintenanceResult], dry_run: bool, seconds: float) -> None:
    """Print the state of each table and what was done to it, or would be."""
    table = Table("table", title="would be done" if dry_run else "done", title_justify="left")
    for each in done:
        state, dropped, compacted = each.state, each.dropped, each.compacted
        cells = {
            "files": str(state.files),
            "MB": f"{state.size / MB:.1f}",
            "rows dropped": str(dropped.rows) if dropped else "",
            "before (UTC)": f"{dropped.before:%Y-%m-%d}" if dropped else "",
            "files compacted": _some(compacted.files),
            "MB compacted": f"{compacted.size / MB:.1f}" if compacted.files else "",
            "into": _some(compacted.into),
            "manifests": str(state.manifests),
            "rewritten": _some(each.manifests),
            "snapshots": str(state.snapshots),
            "expired": _some(each.expired),
            "branches dropped": _some(len(state.left_branches)),
            "orphan files": _some(each.orphans),
        }
        if not table.rows:
            for heading in cells:
                table.add_column(heading, justify="right")
        table.add_row(state.table, *cells.values())
    _console.print(table)
    for each in done:
        if each.refused:
            _console.print(f"[bold yellow]postponed to the next run[/] {each.state.table}: {each.refused}")
    _console.print(f"{len(done)} tables in {seconds:.1f} s")


def failed(table: str, error: Exception) -> None:
    """Print in one line why a table could not be maintained."""
    why = " ".join(str(error).strip().splitlines()[:2])  # the first line of a Java error is only a heading
    _console.print(f"[bold red]failed[/] {table}: {type(error).__name__}: {why}")


def _some(count: int) -> str:
    return str(count) if count else ""
