"""The machine: what it is, and how much of it others use while something is measured."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.lake import jars

_TICKS = os.sysconf("SC_CLK_TCK")


def description() -> str:
    """Cores, memory, and versions of Python and Java, in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run([jars.java(), "-version"], capture_output=True, text=True, check=True).stderr
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {java.splitlines()[0]}"
    )


@dataclass
class Load:
    """What others used while something ran: 1.0 is the whole machine."""

    others: float = 0.0


@contextmanager
def watched(ours: Collection[int]) -> Iterator[Load]:
    """Measure what processes other than this one and `ours` use while the block runs."""
    load = Load()
    ours = [*ours, os.getpid()]
    begin, busy, used = time.monotonic(), _busy_seconds(), sum(map(_used_seconds, ours))
    yield load
    seconds = time.monotonic() - begin
    others = (_busy_seconds() - busy) - (sum(map(_used_seconds, ours)) - used)
    load.others = max(0.0, others) / seconds / (os.cpu_count() or 1)


def _busy_seconds() -> float:
    """Processor seconds of all processes so far."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, soft_irq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + soft_irq) / _TICKS


def _used_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
