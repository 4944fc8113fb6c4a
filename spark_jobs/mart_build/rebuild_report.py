"""The output of the job `rebuild`."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console
from rich.table import Column, Table

from spark_jobs.lake.catalog import lake
from spark_jobs.mart_build import durations
from spark_jobs.mart_build.definitions import Definitions, closure
from spark_jobs.mart_build.inputs import Inputs
from spark_jobs.mart_build.rebuild_state import RebuildState
from spark_jobs.settings import Settings

_console = Console(stderr=True, width=140, highlight=False)


def nothing(why: str) -> None:
    """Print why no model is rebuilt."""
    _console.print(f"nothing to rebuild: {why}")


def planned(
    settings: Settings,
    definitions: Definitions,
    rebuilt: Collection[str],
    begun: RebuildState | None,
    records: int,
) -> None:
    """Print which models are rebuilt, why, how many rows they have, and how long that takes.

    Args:
        settings: where the lake and the recorded durations are.
        definitions: those of the models.
        rebuilt: the changed models, and those that are computed from them.
        begun: the rebuild that goes on, if one has begun.
        records: the records of events.
    """
    needed = _with_working_tables(definitions, rebuilt)
    estimates = durations.estimate(settings.home / "dbt", needed, records)
    done = set(begun.done) if begun and begun.definitions == definitions.digest else set()
    numbers = [Column(heading, justify="right") for heading in ("rows now", "about, s")]
    table = Table("model", "why", *numbers, title="to rebuild", title_justify="left")
    for name in sorted(rebuilt):
        expected = f"{estimates[name]:.0f}" if name in estimates else "not known"
        table.add_row(
            name,
            _why(definitions, name, rebuilt),
            _rows(settings, definitions.nodes[name].table),
            "done" if name in done else expected,
        )
    _console.print(table)
    left = sum(seconds for name, seconds in estimates.items() if name not in done)
    unknown = len(needed - estimates.keys() - done)
    how_long = f"about {left / 60:.0f} minutes by what each took before"
    if unknown and not left:
        how_long = "how long is not known, as all rows of them were not computed here before"
    elif unknown:
        how_long += f", without {unknown} of which that is not known"
    _console.print(
        f"{records:,} records, {len(rebuilt)} tables and {len(needed) - len(rebuilt)} tables of one run: {how_long}; then tests, "
        "and what was merged meanwhile. Normal runs go on with the published models, if their project was kept",
        soft_wrap=True,
    )


def done(number: int, steps: list[list[str]], seconds: float) -> None:
    """Print that a step is done."""
    what = ", ".join(steps[number])
    _console.print(f"[{number + 1}/{len(steps)}] {what}: {seconds:.1f} s", markup=False, soft_wrap=True)


def caught_up(inputs: Inputs, seconds: float) -> None:
    """Print that what was merged meanwhile is taken up."""
    _console.print(f"records up to change_seq {inputs.change_seq_to}: {seconds:.1f} s")


def _with_working_tables(definitions: Definitions, rebuilt: Collection[str]) -> set[str]:
    def working(name: str) -> set[str]:
        of_one_run = ("working_table", "ephemeral")
        nodes = (definitions.nodes[each] for each in definitions.nodes[name].upstream)
        return {node.name for node in nodes if node.materialized in of_one_run}

    found = closure(set(rebuilt), working)
    return {name for name in found if definitions.nodes[name].materialized != "ephemeral"}


def _why(definitions: Definitions, name: str, rebuilt: Collection[str]) -> str:
    """Which rebuilt tables a model reads, also through tables of one run; or that it has changed itself."""

    def until_tables(each: str) -> set[str]:
        return (
            set(definitions.nodes[each].upstream)
            if each == name or not definitions.nodes[each].table
            else set()
        )

    read = (closure({name}, until_tables) - {name}) & set(rebuilt)
    return f"reads {', '.join(sorted(read))}" if read else "it has changed"


def _rows(settings: Settings, table: str | None) -> str:
    catalog = lake(settings)
    if table is None or not catalog.table_exists(table):
        return "new"
    newest = catalog.load_table(table).current_snapshot()
    return f"{int(newest.summary['total-records'] or 0):,}" if newest and newest.summary else "0"
