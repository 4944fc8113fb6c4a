"""Progress of a long read: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

POLL_SECONDS = 0.5
LINE_SECONDS = 10.0


@contextmanager
def of(spark: SparkSession, messages: int) -> Iterator[None]:
    """Show how many messages the Spark tasks inside the block have read and written.

    Spark counts the rows of a task when it ends, so the figures advance by whole sub-ranges
    (`extract.max_offsets_per_partition`).
    """
    ended = threading.Event()
    watching = threading.Thread(target=_show, args=(spark, messages, ended), daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _show(spark: SparkSession, messages: int, ended: threading.Event) -> None:
    console = Console(stderr=True, width=None if Console(stderr=True).is_terminal else 140)
    started = last_line = time.monotonic()
    counts: dict[int, tuple[int, int]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=messages, text="")
        while not ended.wait(POLL_SECONDS):
            counts |= _counts(spark)
            done, size = (sum(each) for each in zip((0, 0), *counts.values(), strict=True))
            text = _text(done, messages, size, time.monotonic() - started)
            bar.update(task, completed=done, text=text)
            if not console.is_terminal and time.monotonic() - last_line >= LINE_SECONDS:
                last_line = time.monotonic()
                console.print(f"reading: {text}", highlight=False)


def _text(done: int, messages: int, size: int, seconds: float) -> str:
    return (
        f"{done:,} of {messages:,} messages, {done / seconds:,.0f} messages/s, "
        f"{size / seconds / 1e6:.1f} MB/s written, {messages - done:,} to go"
    )


def _counts(spark: SparkSession) -> dict[int, tuple[int, int]]:
    """Rows and (compressed) bytes written so far, by Spark stage."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()
    found = {}
    for stage in context.statusTracker().getActiveStageIds():
        data = store.lastStageAttempt(stage)
        found[stage] = data.outputRecords(), data.outputBytes()
    return found
