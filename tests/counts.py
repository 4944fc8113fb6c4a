"""A pytest plugin (`-p tests.counts`) that ends a soak with its counts.

A test says what it counted with `record_property("counts", {heading: value})`; those with equal
headings stand in one table, failed tests' counts included.
"""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console
from rich.table import Table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tables: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, counts in report.user_properties:
                if name == "counts" and report.when == "call":
                    tables.setdefault(tuple(counts), []).append({**counts, "": outcome})
    for headings, rows in tables.items():
        table = Table(*headings, "")
        for row in rows:
            table.add_row(*(str(row[heading]) for heading in (*headings, "")))
        numbers = [h for h in headings if all(isinstance(row[h], int) for row in rows)]
        table.add_section()
        table.add_row(*(str(sum(row[h] for row in rows)) if h in numbers else "" for h in headings), "sum")
        terminalreporter.write_line("")
        Console(file=terminalreporter._tw._file, width=120).print(table)
