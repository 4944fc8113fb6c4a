"""`make bench-tick`: a cycle with 1,000 new trace messages beside 10 M records of history, and one in which nothing is new.

A cycle is what the tasks of `trace_ingest` and `trace_marts` run, without Airflow: in the driver that `make up` keeps, and in
drivers of their own. CPU seconds are those of all its processes, with all children, and of the driver. Exits with 1 if a target
is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from benchmarks import targets
from benchmarks.cpu import CommandFailedError, seconds_of
from benchmarks.extract import topic
from benchmarks.extract.machine import description
from sandbox.broker import rocketmq
from spark_jobs.driver.client import Client
from spark_jobs.process.exit_codes import WORK
from spark_jobs.settings import PROJECT, Cluster, load_settings

MESSAGES, ROUNDS, WARM = 1_000, 3, 2
AT_MOST = {"tick_1k_cpu_s": 100.0, "tick_1k_wall_s": 50.0, "idle_tick_cpu_s": 6.0}
_ADVANCE_INGEST, _ADVANCE_MARTS = "spark_jobs.jobs.advance_ingest", "spark_jobs.jobs.advance_marts"
_console = Console(width=120, highlight=False)


@dataclass(frozen=True)
class Cost:
    """Of a cycle: CPU seconds of all processes, and seconds on the clock."""

    cpu: float
    wall: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, default=10, help="records of history, at most 10 millions")
    args = parser.parse_args()
    begin = time.monotonic()
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    _console.print(f"machine: {description()}", soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="tick-", dir=home) as scratch:
        folder = Path(scratch)
        with rocketmq(folder / "rocketmq", stop_in_order=False) as sandbox:
            cluster = Cluster(name="live", namesrv=[sandbox.namesrv], trace_topics=["bench-tick"])
            environment = os.environ | {
                "TRACE_HOME": str(folder / "home"),
                "TRACE_CLUSTERS": json.dumps([cluster.model_dump(exclude_none=True)]),
                "TRACE_EXTRACT__MAX_OFFSETS_PER_RUN": str(MESSAGES),
                "PYTHONPATH": str(PROJECT),
            }
            cpu, _ = seconds_of(
                [sys.executable, "-m", "benchmarks.tick.history", str(args.millions)], environment
            )
            _console.print(f"{args.millions} M records and their marts: {cpu:.0f} s of CPU")
            written = topic.write(
                sandbox.namesrv, sandbox.broker_name, folder, "bench-tick", MESSAGES * (WARM + 2 * ROUNDS)
            )
            _console.print(f"topic: {written}", soft_wrap=True)
            own = [_cycle(environment, WORK, None) for _ in range(ROUNDS)]
            with _driver(environment, folder) as driver:
                ticks = [_cycle(environment, WORK, driver) for _ in range(WARM + ROUNDS)][WARM:]
                _until_nothing_is_due(environment)
                idle = [_cycle(environment, 0, driver) for _ in range(ROUNDS)]
    for what, costs in (
        (f"{MESSAGES} new trace messages, in drivers of their own", own),
        (f"{MESSAGES} new trace messages", ticks),
        ("nothing new", idle),
    ):
        _console.print(
            f"{what}: CPU {_listed([c.cpu for c in costs])} s, on the clock {_listed([c.wall for c in costs])} s"
        )
    ratios = {
        "tick_1k_cpu_s": statistics.median(cost.cpu for cost in ticks),
        "tick_1k_wall_s": statistics.median(cost.wall for cost in ticks),
        "idle_tick_cpu_s": statistics.median(cost.cpu for cost in idle),
    }
    code = targets.report(_console, ratios, AT_MOST)
    _console.print(f"({time.monotonic() - begin:.0f} s in all)")
    return code


@contextmanager
def _driver(environment: dict[str, str], folder: Path) -> Iterator[psutil.Process]:
    """A running `spark_jobs.driver.serve`."""
    home, log = Path(environment["TRACE_HOME"]), folder / "driver.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.driver.serve"],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while not Client(home).answers():
            if process.poll() is not None:
                raise CommandFailedError(f"the driver ended:\n{log.read_text()[-3000:]}")
            time.sleep(0.5)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _cycle(environment: dict[str, str], code: int, driver: psutil.Process | None) -> Cost:
    """Run the jobs of both DAGs, in the driver or in drivers of their own.

    Args:
        environment: of the jobs.
        code: the exit code of `advance_ingest`: `WORK` if there are new messages.
        driver: the running driver.
    """
    begin, before = time.monotonic(), _seconds(driver)
    cpu, _ = seconds_of([sys.executable, "-m", _ADVANCE_INGEST], environment, code)
    if code == WORK:
        cpu += _job("spark_jobs.jobs.ingest", environment, driver)
        cpu += seconds_of([sys.executable, "-m", _ADVANCE_MARTS], environment, WORK)[0]
        cpu += _job("spark_jobs.jobs.marts", environment, driver)
    else:
        cpu += seconds_of([sys.executable, "-m", _ADVANCE_MARTS], environment)[0]
    cost = Cost(cpu + _seconds(driver) - before, time.monotonic() - begin)
    _console.print(f"a cycle: {cost.cpu:.1f} s of CPU, {cost.wall:.1f} s on the clock")
    return cost


def _job(job: str, environment: dict[str, str], driver: psutil.Process | None) -> float:
    """Run a job; CPU seconds, without those of the driver."""
    if driver is None:
        return seconds_of([sys.executable, "-m", job], environment)[0]
    lines: list[str] = []
    if Client(Path(environment["TRACE_HOME"])).run(job, [], {}, lines.append) != 0:
        raise CommandFailedError("\n".join(lines[-40:]))
    return 0.0


def _seconds(driver: psutil.Process | None) -> float:
    """CPU seconds of the driver and all of its children, also of those that have ended."""
    if driver is None:
        return 0.0
    times = [each.cpu_times() for each in (driver, *driver.children(recursive=True))]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def _until_nothing_is_due(environment: dict[str, str]) -> None:
    """Builds for the facts of the brokers that the cycles have changed, and for an hour that has passed."""
    for _ in range(3):
        seconds_of([sys.executable, "-m", _ADVANCE_INGEST], environment)
        seconds_of([sys.executable, "-m", "spark_jobs.jobs.marts"], environment)


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sandbox").setLevel(logging.INFO)
    sys.exit(main())
