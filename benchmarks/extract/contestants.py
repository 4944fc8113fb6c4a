"""Who reads, and how each is started."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks.extract.children import Child
from benchmarks.extract.java import java_command
from benchmarks.extract.topic import Topic
from sandbox.native_library import LIBRARY_LOCK
from spark_jobs.settings import PROJECT

HERE = Path(__file__).parent
PROCESSES = 2

PULL, LITE, ASYNC = "Java pull", "Java lite pull", "Java async pull, 32 in flight"
WHEEL = "rocketmq 0.4.4"
SINGLE, PARALLEL = "ours", f"ours, {PROCESSES} processes"
NEAR, FAR = "ours, proxy 0 ms", "ours, proxy 5 ms"
NAMES = (PULL, LITE, ASYNC, SINGLE, PARALLEL, NEAR, FAR, WHEEL)

# Reads of the whole range before the first one that counts: a JVM still gets faster until then.
WARM_UP = {PULL: 8, LITE: 8, ASYNC: 8, SINGLE: 2, PARALLEL: 2, NEAR: 1, FAR: 1, WHEEL: 1}


@dataclass(frozen=True, slots=True)
class Contestant:
    """A client that has been started: one process, or several that share the range."""

    name: str
    children: Sequence[Child]

    def read(self, start: int, end: int) -> tuple[int, int]:
        """Read the range; the number of messages and of body bytes that came.

        Raises:
            ChildFailed: a process has ended, or does not answer.
        """
        count = len(self.children)
        cuts = [start + (end - start) * index // count for index in range(count + 1)]
        for child, first, last in zip(self.children, cuts, cuts[1:], strict=False):
            child.send(f"{first} {last}")
        sums = [child.done() for child in self.children]
        return sum(int(words[0]) for words in sums), sum(int(words[1]) for words in sums)


def wheel_python(home: Path) -> Path:
    """The Python of an environment that holds the wheel alone; made when it is missing.

    Raises:
        subprocess.CalledProcessError: the wheel cannot be installed.
    """
    folder = home / f"wheel-{sha256(LIBRARY_LOCK.read_bytes()).hexdigest()[:12]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--require-hashes", "--requirement", str(LIBRARY_LOCK)], check=True)
        complete.touch()
    return python


def ours(name: str, topic: Topic, folder: Path, address: str = "") -> Child:
    """One process with our client; `address` leads it through a proxy."""
    command = [sys.executable, "-m", "benchmarks.extract.ours", topic.namesrv, topic.name, address]
    return Child(name, [word for word in command if word], folder, _project_on_path())


def delay(name: str, target: str, ms_each_way: float, folder: Path) -> Child:
    """The proxy; its address is `ready[0]`."""
    command = [sys.executable, "-m", "benchmarks.extract.delay", target, str(ms_each_way)]
    return Child(name, command, folder, _project_on_path())


@contextmanager
def started(topic: Topic, broker_address: str, home: Path, folder: Path) -> Iterator[dict[str, Contestant]]:
    """All contestants by name, and ready; they end with the block."""
    python = wheel_python(home)
    with ExitStack() as stack:

        def contestant(name: str, *children: Child) -> Contestant:
            return Contestant(name, [stack.enter_context(child) for child in children])

        def java(name: str, how: str) -> Contestant:
            command = java_command("Read.java", folder, how, topic.namesrv, topic.name, topic.broker)
            return contestant(name, Child(name, command, folder))

        proxies = [
            stack.enter_context(delay(f"proxy of {ms} ms", broker_address, ms / 2, folder)) for ms in (0, 5)
        ]
        yield {
            PULL: java(PULL, "pull"),
            LITE: java(LITE, "lite"),
            ASYNC: java(ASYNC, "async"),
            SINGLE: contestant(SINGLE, ours(SINGLE, topic, folder)),
            PARALLEL: contestant(
                PARALLEL, *(ours(f"{PARALLEL} {number}", topic, folder) for number in range(PROCESSES))
            ),
            NEAR: contestant(NEAR, ours(NEAR, topic, folder, proxies[0].ready[0])),
            FAR: contestant(FAR, ours(FAR, topic, folder, proxies[1].ready[0])),
            WHEEL: contestant(
                WHEEL,
                Child(
                    WHEEL,
                    [str(python), str(HERE / "wheel.py"), topic.namesrv, topic.name],
                    folder,
                    {"HOME": str(folder)},
                ),
            ),
        }


def _project_on_path() -> Mapping[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH", ""))))}
