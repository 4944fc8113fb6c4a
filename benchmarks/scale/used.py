"""What a stage uses: CPU of all its processes, memory, and what it writes into the lake."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.25
_SETTLE_SECONDS = 1.0
T = TypeVar("T")


@dataclass(frozen=True)
class Used:
    """Of one stage.

    Attributes:
        cpu: CPU seconds of the driver (Python and its JVM) and of Spark's Python workers.
        wall: seconds on the clock.
        written: bytes of the files that it added to the warehouse.
        data_files: how many of them are Parquet.
        metadata_files: how many are not.
        memory: peak resident memory, bytes: the peaks of driver and JVM, and the most that the workers had together.
    """

    cpu: float
    wall: float
    written: int
    data_files: int
    metadata_files: int
    memory: int


class Gauge:
    """Measures pieces of work of this process and the JVM below it, which in local mode does all of Spark's."""

    def __init__(self, spark: SparkSession, warehouse: Path):
        assert spark._jvm is not None
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        self._warehouse = warehouse

    def measure(self, work: Callable[[], T]) -> tuple[T, Used]:
        """The result of the work, and what it used."""
        before = _files(self._warehouse)
        time.sleep(_SETTLE_SECONDS)  # the JVM's compilers and collector finish what the work before left them
        mains = [os.getpid(), self._jvm]
        for pid in mains:
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak starts again at what is resident now
        watcher = _Watcher(self._jvm)
        watcher.start()
        cpu, begin = self._cpu(), time.perf_counter()
        try:
            result = work()
        finally:
            wall = time.perf_counter() - begin
            time.sleep(_SETTLE_SECONDS)
            cpu = self._cpu() - cpu
            watcher.stop()
        memory = sum(_memory(pid, "VmHWM") for pid in mains) + watcher.most
        added = {path: size for path, size in _files(self._warehouse).items() if path not in before}
        data = sum(path.endswith(".parquet") for path in added)
        return result, Used(cpu - watcher.cpu, wall, sum(added.values()), data, len(added) - data, memory)

    def _cpu(self) -> float:
        own = os.times()
        return own.user + own.system + sum(map(_cpu_with_ended_children, [self._jvm, *below(self._jvm)]))


class _Watcher(threading.Thread):
    """Looks at Spark's Python workers several times a second.

    Attributes:
        most: resident bytes that they had together at most.
        cpu: CPU seconds of this thread.
    """

    def __init__(self, jvm: int):
        super().__init__(daemon=True)
        self._jvm, self._over = jvm, threading.Event()
        self.most, self.cpu = 0, 0.0

    def run(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            self.most = max(self.most, sum(_memory(pid, "VmRSS") for pid in below(self._jvm)))
        self.cpu = time.thread_time()

    def stop(self) -> None:
        self._over.set()
        self.join()


def below(pid: int) -> list[int]:
    """The processes that this one started, with all that these started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(_fields(stat)[1])
        except OSError:  # it has ended
            continue
    found, new = [], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def _cpu_with_ended_children(pid: int) -> float:
    try:
        return sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[11:15])) / _TICKS
    except OSError:
        return 0.0


def _fields(stat: Path) -> list[str]:
    """The fields of a `/proc/<pid>/stat` from the third on: the second, its name, may have spaces."""
    return stat.read_text().rpartition(")")[2].split()


def _memory(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _files(folder: Path) -> dict[str, int]:
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".crc"):
                path = os.path.join(parent, name)
                found[path] = os.path.getsize(path)
    return found
