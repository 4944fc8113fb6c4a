"""`make bench-tick`: a cycle with 1,000 new trace messages beside 10 M records of history, and one in which nothing is new.

A cycle is what the tasks of `trace_ingest` and `trace_marts` run, without Airflow. CPU seconds are those of all its processes,
with all children. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import targets
from benchmarks.cpu import seconds_of
from benchmarks.extract import topic
from benchmarks.extract.machine import description
from sandbox.broker import rocketmq
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
                sandbox.namesrv, sandbox.broker_name, folder, "bench-tick", MESSAGES * (WARM + ROUNDS)
            )
            _console.print(f"topic: {written}", soft_wrap=True)
            ticks = [_cycle(environment, WORK) for _ in range(WARM + ROUNDS)][WARM:]
            _until_nothing_is_due(environment)
            idle = [_cycle(environment, 0) for _ in range(ROUNDS)]
    for what, costs in ((f"{MESSAGES} new trace messages", ticks), ("nothing new", idle)):
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


def _cycle(environment: dict[str, str], code: int) -> Cost:
    """Run the jobs of both DAGs; `code` is the exit code of `advance_ingest`: `WORK` if there are new messages."""
    begin = time.monotonic()
    cpu, _ = seconds_of([sys.executable, "-m", _ADVANCE_INGEST], environment, code)
    if code == WORK:
        cpu += seconds_of([sys.executable, "-m", "spark_jobs.jobs.ingest", "--marts"], environment)[0]
    cpu += seconds_of([sys.executable, "-m", _ADVANCE_MARTS], environment)[0]  # the marts are built
    cost = Cost(cpu, time.monotonic() - begin)
    _console.print(f"a cycle: {cost.cpu:.1f} s of CPU, {cost.wall:.1f} s on the clock")
    return cost


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
