"""The output of the marts job."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from spark_jobs.mart_build.inputs import Inputs

if TYPE_CHECKING:  # `advance_marts` does not load dbt
    from spark_jobs.mart_build.dbt import Build

_console = Console(stderr=True, width=140, highlight=False)


def recovered(publications: list[str]) -> None:
    for publication_id in publications:
        _console.print(
            f"[bold yellow]finished[/] publication {publication_id}, which an earlier run did not finish"
        )


def nothing_merged() -> None:
    _console.print("no records in lake.events.trace_records yet: no marts were built")


def nothing_new(inputs: Inputs) -> None:
    _console.print(
        f"the marts already contain change_seq {inputs.change_seq_to}, and no watermark has moved: nothing to do"
    )


def due(why: str) -> None:
    _console.print(f"Spark is needed for the marts: {escape(why)}", soft_wrap=True)


def advanced(inputs: Inputs, seconds: float) -> None:
    """Print up to when the marts are complete now, without a build."""
    _console.print(
        f"a build would change nothing: Spark was not started. The marts are complete to {_marks(inputs)}; {seconds:.1f} s",
        soft_wrap=True,
    )


def _marks(inputs: Inputs) -> str:
    return ", ".join(f"{cluster} {at} UTC" for cluster, at in inputs.marks.items())


def left(why: str) -> None:
    """Print that `ingest` does not build the marts."""
    _console.print(f"the marts are left to trace_marts: {escape(why)}", soft_wrap=True)


def reading(inputs: Inputs) -> None:
    what = "all records" if inputs.change_seq_from is None else f"the records after {inputs.change_seq_from}"
    _console.print(
        f"building the marts up to change_seq {inputs.change_seq_to} from {what}; watermarks: {_marks(inputs)}"
    )
    if inputs.rebuilt:
        _console.print(
            f"all rows of {len(inputs.rebuilt)} models are computed, as they have changed: {', '.join(sorted(inputs.rebuilt))}",
            soft_wrap=True,
        )


def postponed(models: Collection[str]) -> None:
    """Print that a build goes on with the published models."""
    _console.print(
        f"{len(models)} models have changed: the job rebuild (`make rebuild`, trace_rebuild) computes their rows. "
        "This build goes on with the published models and limits",
        soft_wrap=True,
    )


def published(built: Build, rows: dict[str, int], seconds: float) -> None:
    """Print one line per mart (rows, seconds) and a total."""
    spent = {node.name: node.seconds for node in built.nodes}
    numbers = [Column(heading, justify="right") for heading in ("rows", "seconds")]
    table = Table("mart", *numbers, title="published", title_justify="left")
    for name, count in rows.items():
        table.add_row(f"lake.{name}", str(count), f"{spent.get(name.partition('.')[2], 0):.1f}")
    _console.print(table)
    for node in built.warnings:
        _console.print(f"[bold yellow]warning[/] {node.name}: {escape(node.message)}")
    tests = sum(node.kind == "test" for node in built.nodes)
    _console.print(
        f"{len(rows)} marts published, {tests} tests passed or warned; dbt {built.seconds:.1f} s, "
        f"in total {seconds:.1f} s"
    )


def serving(file: Path, seconds: float) -> None:
    _console.print(f"serving file {file}: {seconds:.1f} s", soft_wrap=True)


def tested(done: Build | None) -> None:
    """Print the failed tests of the full history."""
    if done is None:
        _console.print(
            "no marts of these models and limits are published: the next build computes and tests all rows"
        )
        return
    for node in done.failures:
        _console.print(f"[bold red]failed[/] {node.name}: {escape(node.message[:1000])}")
    if done.error:
        _console.print(f"[bold red]dbt:[/] {escape(done.error)}")
    _console.print(
        f"{len(done.nodes) - len(done.failures)} of {len(done.nodes)} tests passed or warned; dbt {done.seconds:.1f} s"
    )


def refused(built: Build, state: str) -> None:
    """Print what failed, and that the published marts are unchanged."""
    title = "not published: the marts are unchanged"
    table = Table("what", "kind", "status", "message", title=title, title_justify="left", show_lines=True)
    if built.error:
        table.add_row("dbt", "", "error", escape(built.error))
    for line in built.refused:
        table.add_row(line.partition(":")[0], "check", "fail", escape(line[:1000]))
    for node in built.failures:
        table.add_row(node.name, node.kind, node.status, escape(node.message[:1000]))
    _console.print(table)
    _console.print(f"the failing statements are below {state}")
