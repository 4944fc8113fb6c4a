"""The tables of the benchmark: one per size, one of what the largest lake stores, and one per run of many messages."""

from __future__ import annotations

import statistics
from dataclasses import fields, replace

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.scale.batches import STAGES, Costs
from benchmarks.scale.lakes import Lake
from benchmarks.scale.memory import Run
from benchmarks.scale.plain import Plain
from benchmarks.scale.stored import Stored
from benchmarks.scale.used import Used

_HEADINGS = ("records/s", "CPU s", "CPU s per M", "wall s", "MB written", "data files", "metadata", "peak MB")


def middle(costs: list[Used]) -> Used:
    """The median of each figure."""
    return Used(*(statistics.median(getattr(cost, each.name) for cost in costs) for each in fields(Used)))


def whole(costs: Costs, stages: tuple[str, ...] = STAGES) -> list[float]:
    """CPU seconds of these stages together, in each round."""
    return [
        sum(each)
        for each in zip(
            *([used.cpu for used in costs[name]] for name in stages if name in costs), strict=True
        )
    ]


def lake(console: Console, of: Lake, records: int, costs: Costs, plain: Plain) -> None:
    """Print what each stage of the batch used in a lake, and the build of all its marts, where it was made."""
    stages = [name for name in STAGES if name in costs]
    rounds = len(costs[stages[0]])
    table = _table(
        f"a batch of {records:,} records into a lake of {of.records:,} records, "
        + (f"medians of {rounds} rounds" if rounds > 1 else "once")
    )
    of_stages = [middle(costs[name]) for name in stages]
    for name, used in zip(stages, of_stages, strict=True):
        _add(table, name, records, used)
    totals = Used(*(sum(getattr(used, each.name) for used in of_stages) for each in fields(Used)))
    _add(
        table,
        "all four" if len(stages) == len(STAGES) else "all of them",
        records,
        replace(totals, memory=max(used.memory for used in of_stages)),
    )
    table.add_section()
    for name in costs:
        if name not in STAGES:
            _add(table, name, records, middle(costs[name]))
    by_pyarrow = Used(plain.cpu, plain.wall, plain.written, 1, 0, plain.memory)
    _add(table, "pyarrow writes the same rows", plain.records, by_pyarrow)
    if of.refresh:
        table.add_section()
        _add(table, "marts of the whole lake", of.records, of.refresh)
    console.print(table)


def runs(console: Console, of: list[Run]) -> None:
    """Print what runs of many messages used."""
    for run in of:
        table = _table(
            f"a run of {run.messages:,} messages, {run.records:,} records, {run.stored / 1e6:,.0f} MB in the brokers' store"
        )
        _add(table, "extract", run.records, run.extract)
        _add(table, "merge", run.records, run.merge)
        console.print(table)


def what_is_stored(console: Console, records: int, kinds: dict[str, Stored]) -> None:
    """Print what a lake stores per record."""
    headings = ("rows", "rows per record", "files", "MB", "bytes per record")
    table = _table(f"what a lake of {records:,} records stores", "tables", headings)
    for name, of in kinds.items():
        shares = (f"{of.rows / records:.3f}", f"{of.files:,}", f"{of.size / 1e6:,.1f}")
        table.add_row(name, f"{of.rows:,}", *shares, f"{of.size / records:.1f}")
    console.print(table)


def _table(title: str, first: str = "stage", others: tuple[str, ...] = _HEADINGS) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def _add(table: Table, name: str, records: int, used: Used) -> None:
    table.add_row(
        name,
        f"{records / used.wall:,.0f}",
        f"{used.cpu:.1f}",
        f"{used.cpu / records * 1e6:.1f}",
        f"{used.wall:.1f}",
        f"{used.written / 1e6:,.1f}",
        f"{used.data_files:,.0f}",
        f"{used.metadata_files:,.0f}",
        f"{used.memory / 1e6:,.0f}",
    )
