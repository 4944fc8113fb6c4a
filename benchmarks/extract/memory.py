"""How much the memory of a reading task grows, over a short range and over one ten times as long."""

from __future__ import annotations

import statistics
from pathlib import Path

from rich.console import Console

from benchmarks.extract.contestants import ours
from benchmarks.extract.topic import Topic
from spark_jobs.rocketmq.batches import BATCH_BYTES
from spark_jobs.rocketmq.message import MAX_INFLATED_BYTES
from spark_jobs.rocketmq.options import Options
from spark_jobs.rocketmq.reading import INFLATED_AT_ONCE

SHORT_PART = 10
TASKS = 3

_MB = 2**20
_MOST_A_PULL = 256 * 1024  # maxTransferBytesOnMessageInMemory, the broker's default


def bound() -> str:
    """What the memory of a task is bound by, in words: derived from the code, not measured."""
    pulls = Options.parse({"namesrv": "any:1", "topic": "any"}).pulls_in_flight
    return (
        f"the bound, from the code: pullsInFlight ({pulls}) answers, on the way or waiting for an earlier one, of at most "
        f"256 KB, what a broker gives at once by default: {pulls * _MOST_A_PULL / _MB:.0f} MB; bodies are inflated "
        f"{INFLATED_AT_ONCE / _MB:.0f} MB at a time (and one body of up to {MAX_INFLATED_BYTES / _MB:.0f} MB); a record "
        f"batch is closed at {BATCH_BYTES / _MB:.0f} MB of bodies, and there are three: the messages of one, its Arrow "
        "columns, and the one before, which Spark still has. The length of the range is in none of these"
    )


def growth(topic: Topic, folder: Path, console: Console) -> tuple[float, float]:
    """Median growth in MB of fresh processes that read a tenth of the topic, and all of it.

    Raises:
        ChildFailed: a process has ended, or does not answer.
    """
    medians = []
    for length in (topic.messages // SHORT_PART, topic.messages):
        grown = []
        for _ in range(TASKS):
            with ours("ours, memory", topic, folder) as task:
                task.send(f"0 {length}")
                grown.append(float(task.done()[2]))
        console.print(
            f"memory over {length:,} messages: " + ", ".join(f"{each:.0f}" for each in grown) + " MB"
        )
        medians.append(statistics.median(grown))
    return medians[0], medians[1]
