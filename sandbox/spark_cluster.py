"""A Spark standalone cluster: a master and two workers of one core, which see neither this checkout nor `/tmp`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from deploy import child_process
from sandbox import cpu_limit
from sandbox.network import Network
from spark_jobs.lake import jars
from spark_jobs.settings import PROJECT

WORKERS = 2
_PORTS = "--port 0 --webui-port 0"


@dataclass(frozen=True)
class Standalone:
    """A running cluster.

    Attributes:
        master: its URL.
        folder: has a folder per worker, with the logs of its executors.
        workers: the processes of the workers.
    """

    master: str
    folder: Path
    workers: list[subprocess.Popen[bytes]]

    def executor_logs(self, application: str) -> list[str]:
        """What the executors of an application have logged, one text per executor."""
        return [log.read_text() for log in sorted(self.folder.glob(f"worker-*/{application}/*/stderr"))]

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors with SIGKILL."""
        worker = psutil.Process(self.workers[number].pid)
        for process in (*worker.children(recursive=True), worker):
            process.kill()

    def applications(self) -> set[str]:
        """The ids of the applications that had executors."""
        return {folder.name for folder in self.folder.glob("worker-*/app-*")}


@contextmanager
def standalone(
    network: Network, environment: Mapping[str, str], memory: str = "1g", groups: Sequence[Path] = ()
) -> Iterator[Standalone]:
    """Run a cluster within the block.

    Args:
        network: of the master and the workers.
        environment: variables of the workers, which their executors inherit, such as the secrets of the brokers.
        memory: of each worker.
        groups: a control group per worker, for it, its executors and their Python processes (`cpu_limit.py`).
    """
    # Not below /tmp, which the workers do not see.
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp", prefix="spark-")))
        stack.enter_context(
            _daemon(folder / "master", f"master.Master --host {network.host} {_PORTS}", network.host, {})
        )
        master = _wait_for(folder / "master" / "log", rf"spark://{re.escape(network.host)}:\d+", 1)
        workers = []
        for number, host in enumerate(network.workers):
            work = folder / f"worker-{number}"
            command = (
                f"worker.Worker --host {host} {_PORTS} --cores 1 --memory {memory} --work-dir {work} {master}"
            )
            daemon = _daemon(work, command, host, environment, network.within(number))
            workers.append(stack.enter_context(daemon))
            if groups:
                cpu_limit.add(groups[number], workers[-1].pid)
        _wait_for(folder / "master" / "log", "Registering worker", WORKERS)
        yield Standalone(master, folder, workers)


@contextmanager
def _daemon(
    folder: Path, command: str, host: str, environment: Mapping[str, str], within: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    home = Path(pyspark.__file__).parent
    keep = ("PATH", "JAVA_HOME", "LANG")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "HOME": str(folder),
    }
    arguments = [str(home / "bin" / "spark-class"), *f"org.apache.spark.deploy.{command}".split()]
    if within:
        arguments = [*within, "sh", "-ec", _hiding(folder, arguments)]
    with (folder / "log").open("w") as log:
        process = child_process.spawn(
            arguments, env={**env, **environment}, cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            child_process.end(process, grace_seconds=5)


def _hiding(folder: Path, command: list[str]) -> str:
    """A script that hides `/tmp`, the checkout and the cache of jars from the command; Python stays at its path."""
    kept = folder / "python"
    kept.mkdir()
    lines = [f"mount --bind {shlex.quote(os.path.realpath(sys.prefix))} {kept}"]
    for hidden in ("/tmp", str(PROJECT), str(jars.cache_folder())):
        path = shlex.quote(os.path.realpath(hidden))
        lines.append(f"mkdir -p {path}; mount -t tmpfs none {path}")
    python = shlex.quote(sys.prefix)
    lines.append(f"mkdir -p {python}; mount --bind {kept} {python}")
    return "\n".join([*lines, f"exec {shlex.join(command)}"])


def _wait_for(log: Path, pattern: str, times: int) -> str:
    """Wait until the log contains the pattern so many times; return the last."""
    give_up = time.monotonic() + 60
    while len(found := re.findall(pattern, log.read_text())) < times:
        assert time.monotonic() < give_up, log.read_text()[-3000:]
        time.sleep(0.2)
    return found[-1]
