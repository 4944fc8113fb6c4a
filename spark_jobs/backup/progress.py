"""Progress of copying and reading files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

from spark_jobs.backup import make

_REPORT_BYTES = 1 << 30


@contextmanager
def progress_of(what: str) -> Iterator[make.Progress]:
    """Show bytes on a terminal, and a line for each GB elsewhere; yields the function that counts bytes."""
    console, done, shown = Console(stderr=True, highlight=False), 0, 0
    columns = (SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def advance(size: int) -> None:
            nonlocal done, shown
            done += size
            bar.update(task, completed=done)
            if not console.is_terminal and done - shown >= _REPORT_BYTES:
                shown = done
                console.print(f"{what}: {done / 1e9:.1f} GB")

        yield advance
