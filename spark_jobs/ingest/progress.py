"""Progress of a long read: a bar on a terminal, a line every few seconds elsewhere and for each of several clusters."""

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
def of(spark: SparkSession, cluster: str, messages: int) -> Iterator[None]:
    """Show how many messages of a cluster the Spark tasks inside the block have read and written.

    The jobs inside the block get the cluster's name as their job group. Spark counts the rows of a task when it ends, so
    the figures advance by whole sub-ranges (`extract.max_offsets_per_partition`).
    """
    ended = threading.Event()
    is_only_one = threading.current_thread() is threading.main_thread()
    context = spark.sparkContext
    context.setJobGroup(cluster, f"extract {cluster}")
    watching = threading.Thread(
        target=_show, args=(spark, cluster, messages, is_only_one, ended), daemon=True
    )
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
        context._jsc.clearJobGroup()


def _show(
    spark: SparkSession, cluster: str, messages: int, is_only_one: bool, ended: threading.Event
) -> None:
    is_terminal = Console(stderr=True).is_terminal
    console = Console(stderr=True, width=None if is_terminal else 140)
    has_bar = is_terminal and is_only_one
    started = last_line = time.monotonic()
    counts: dict[int, tuple[int, int]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not has_bar) as bar:
        task = bar.add_task("reading", total=messages, text="")
        while not ended.wait(POLL_SECONDS):
            counts |= _counts(spark, cluster)
            done, size = (sum(each) for each in zip((0, 0), *counts.values(), strict=True))
            text = _text(done, messages, size, time.monotonic() - started)
            bar.update(task, completed=done, text=text)
            if not has_bar and time.monotonic() - last_line >= LINE_SECONDS:
                last_line = time.monotonic()
                console.print(f"reading {cluster}: {text}", highlight=False)


def _text(done: int, messages: int, size: int, seconds: float) -> str:
    return (
        f"{done:,} of {messages:,} messages, {done / seconds:,.0f} messages/s, "
        f"{size / seconds / 1e6:.1f} MB/s written, {messages - done:,} to go"
    )


def _counts(spark: SparkSession, cluster: str) -> dict[int, tuple[int, int]]:
    """Rows and (compressed) bytes written so far, by Spark stage."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()
    tracker = context.statusTracker()
    jobs = [info for job in tracker.getJobIdsForGroup(cluster) if (info := tracker.getJobInfo(job))]
    stages = {stage for job in jobs for stage in job.stageIds}
    found = {}
    for stage in stages & set(tracker.getActiveStageIds()):
        data = store.lastStageAttempt(stage)
        found[stage] = data.outputRecords(), data.outputBytes()
    return found
