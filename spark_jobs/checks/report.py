"""The output of checks in the log of their job."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spark_jobs.checks.check import Evaluation

_console = Console(stderr=True, width=140)


def evaluated(evaluations: Sequence[Evaluation]) -> None:
    """Print what failed, and how many checks passed."""
    failed = [(each, result) for each in evaluations for result in each.failures]
    if failed:
        table = Table(title="failed checks", title_justify="left", show_lines=True)
        for heading in ("check", "class", "severity", "entity", "found"):
            table.add_column(heading, overflow="fold")
        for each, result in failed:
            names = (each.check.name, each.check.kind, each.severity, result.entity or "")
            table.add_row(*map(escape, names), escape(result.detail))
        _console.print(table)
    passed = sum(not each.failures for each in evaluations)
    _console.print(f"{passed} of {len(evaluations)} checks passed", highlight=False)
