"""`make bench-facts`: what the facts of the brokers cost beside an extraction of 100,000 messages, on a real broker.

The broker has 200 groups, each with offsets in 50 topics of 16 queues. CPU seconds are those of whole processes, with all
children and the start of Python, so the facts count as more than in the job, which they share. Exits with 1 if a target is
missed.
"""

from __future__ import annotations

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

from benchmarks.cpu import seconds_of
from benchmarks.extract import topic
from benchmarks.extract.machine import description
from benchmarks.facts import suspects
from benchmarks.facts.groups import GROUPS, QUEUES, TOPICS, Groups
from sandbox.broker import TRACE_TOPIC, Sandbox, rocketmq
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import MESSAGE_CHECKS
from spark_jobs.settings import PROJECT, BrokerFacts, Cluster, Settings, load_settings

AT_MOST = {
    "facts_vs_extract": 0.10,
    "facts_with_suspects_vs_extract": 0.10,
    "facts_idle_s": 2.0,
    "facts_rows_vs_records": 0.02,
}
ROUNDS = 3
SUSPECTS = BrokerFacts().checked_messages
CLUSTER = "bench"
_console = Console(width=120, highlight=False)


@dataclass(frozen=True)
class Cost:
    """Of one collection: CPU seconds of its process, seconds without the start of Python, rows added, of them look-ups."""

    cpu: float
    seconds: float
    rows: int
    checks: int


def main() -> int:
    begin = time.monotonic()
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    _console.print(f"machine: {description()}", soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="facts-", dir=home) as scratch:
        folder = Path(scratch)
        with rocketmq(folder / "rocketmq", stop_in_order=False) as sandbox:
            ratios = _bench(sandbox, folder)
    for name, value in ratios.items():
        print(f"RATIO {name}={value:.4g}")
    missed = [f"{n} is {v:.4g}, at most {AT_MOST[n]} is wanted" for n, v in ratios.items() if v > AT_MOST[n]]
    _console.print(
        "; ".join(missed) or "all targets are reached", f"({time.monotonic() - begin:.0f} s in all)"
    )
    return 1 if missed else 0


def _bench(sandbox: Sandbox, folder: Path) -> dict[str, float]:
    written = topic.write(sandbox.namesrv, sandbox.broker_name, folder)
    _console.print(f"topic: {written}", soft_wrap=True)
    extractions = [_extract(sandbox, written, folder / f"extract-{number}") for number in range(ROUNDS)]
    _console.print(f"CPU of an extraction without facts: {_listed(extractions)} s")
    environment = _environment(folder / "extract-0", sandbox, TRACE_TOPIC)
    groups = Groups(sandbox.broker_address)
    try:
        groups.move()
        first = _facts("first", groups, environment)
        idle = [_facts("nothing changed", groups, environment) for _ in range(ROUNDS)]
        moved = []
        for _ in range(ROUNDS):
            groups.move()
            moved.append(_facts("every offset moved", groups, environment))
        _publish_suspects(sandbox, folder / "extract-0")
        suspected = []
        for _ in range(ROUNDS):
            groups.move()
            suspected.append(_facts("every offset moved, suspects looked up", groups, environment))
    finally:
        groups.close()
    assert [cost.rows for cost in idle] == [1] * ROUNDS, "unchanged facts added rows"
    assert all(cost.rows >= GROUPS * TOPICS for cost in moved), "moved offsets were not recorded"
    assert [cost.checks for cost in suspected] == [SUSPECTS] * ROUNDS, "suspects were not looked up"
    return {
        "facts_vs_extract": statistics.median(cost.cpu for cost in moved) / statistics.median(extractions),
        "facts_with_suspects_vs_extract": (
            statistics.median(cost.cpu for cost in suspected) / statistics.median(extractions)
        ),
        "facts_idle_s": statistics.median(cost.seconds for cost in idle),
        "facts_rows_vs_records": max(cost.rows for cost in (first, *moved)) / written.records,
    }


def _publish_suspects(sandbox: Sandbox, home: Path) -> None:
    """So many that each of the next collections looks up as many as one may."""
    sent = suspects.send(sandbox.broker_address, SUSPECTS * ROUNDS)
    suspects.publish(lake(Settings(home=home)), CLUSTER, sent)


def _extract(sandbox: Sandbox, written: topic.Topic, home: Path) -> float:
    """CPU seconds of the job that reads the whole topic; the tables exist already."""
    job = [sys.executable, "-m", "spark_jobs.jobs.extract", "--cluster", CLUSTER]
    off = {"TRACE_BROKER_FACTS__ENABLED": "false"}
    seconds_of(job, _environment(home, sandbox, TRACE_TOPIC) | off)
    cpu, _ = seconds_of(job, _environment(home, sandbox, written.name) | off)
    return cpu


def _facts(what: str, groups: Groups, environment: dict[str, str]) -> Cost:
    groups.heartbeat()
    cpu, printed = seconds_of([sys.executable, "-m", "benchmarks.facts.once"], environment)
    found = json.loads(printed.splitlines()[-1])
    cost = Cost(cpu, found["seconds"], sum(found["rows"].values()), found["rows"].get(MESSAGE_CHECKS.name, 0))
    _console.print(
        f"facts of {GROUPS} groups, {TOPICS} topics of {QUEUES} queues, {what}: {cost.cpu:.2f} s of CPU, "
        f"{cost.seconds:.2f} s without the start of Python, {cost.rows} rows"
    )
    return cost


def _environment(home: Path, sandbox: Sandbox, trace_topic: str) -> dict[str, str]:
    cluster = Cluster(name=CLUSTER, namesrv=[sandbox.namesrv], trace_topics=[trace_topic])
    return os.environ | {
        "TRACE_HOME": str(home),
        "TRACE_CLUSTERS": json.dumps([cluster.model_dump(exclude_none=True)]),
        "TRACE_BROKER_FACTS__OFFSETS_MINUTES": "0",  # else the offsets that moved would wait
        "PYTHONPATH": str(PROJECT),
    }


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sandbox").setLevel(logging.INFO)
    sys.exit(main())
