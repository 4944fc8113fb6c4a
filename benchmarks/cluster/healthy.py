"""The freshness of nine clusters beside one whose nameserver accepts connections and never answers, and without it."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.extract import topic
from sandbox.broker import rocketmq
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import OFFSETS, from_json
from spark_jobs.lake.tables import EVENTS
from spark_jobs.settings import PROJECT, Cluster, Settings

CLUSTERS = 9
MESSAGES = 1000  # of each cluster in a cycle
ROUNDS = 3


def measure(folder: Path, console: Console) -> float:
    """The ratio of the medians: from the start of a cycle to the publication of the nine clusters' records in events."""
    cycles, home = 2 * (ROUNDS + 1), folder / "home"
    home.mkdir()
    with (
        rocketmq(folder / "a", stop_in_order=False) as first,
        rocketmq(folder / "b", broker_name="broker-b", join=first.namesrv, stop_in_order=False) as second,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        clusters = []
        for number in range(CLUSTERS):
            broker = (first, second)[number % 2].broker_name
            topic.write(first.namesrv, broker, folder, f"bench-cluster-{number}", cycles * MESSAGES)
            clusters.append(
                Cluster(name=f"c{number}", namesrv=[first.namesrv], trace_topics=[f"bench-cluster-{number}"])
            )
        console.print(
            f"{CLUSTERS} clusters, {MESSAGES} trace messages each ({topic.RECORDS} records a message) in a cycle; "
            "the catalog in SQLite, local[2]"
        )
        never = Cluster(name="silent", namesrv=[f"127.0.0.1:{silent.getsockname()[1]}"])
        contestants = {"without": clusters, "beside a silent one": [*clusters, never]}
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(ROUNDS + 1):  # the first one creates the tables
            for name in [*contestants][:: 1 if turn % 2 else -1]:
                took = _cycle(Settings(home=home, clusters=contestants[name]))
                if turn:
                    seconds[name].append(took)
            if turn:
                console.print(
                    f"round {turn}: "
                    + ", ".join(f"{name} {each[-1]:.1f} s" for name, each in seconds.items())
                )
    without, beside = (statistics.median(each) for each in seconds.values())
    return beside / without


def _cycle(settings: Settings) -> float:
    """Run the job; the seconds to the publication."""
    given = [each.model_dump(exclude_none=True) for each in settings.clusters]
    environment = os.environ | {
        "TRACE_HOME": str(settings.home),
        "TRACE_CLUSTERS": json.dumps(given),
        "TRACE_EXTRACT__MAX_OFFSETS_PER_RUN": str(MESSAGES),
        "TRACE_SPARK__MASTER": "local[2]",
        "PYTHONPATH": str(PROJECT),
    }
    failures = settings.home.with_name("failures.json")
    before = _read(settings)
    started = time.time()
    job = subprocess.run(
        [sys.executable, "-m", "spark_jobs.jobs.ingest", "--failures", str(failures)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if job.returncode:
        raise RuntimeError(job.stderr[-3000:])
    failed = {*json.loads(failures.read_text())} - {"silent"}
    read = _read(settings) - before
    if failed or read != CLUSTERS * MESSAGES:
        raise RuntimeError(f"{read} messages were merged, failed: {failed}\n{job.stderr[-3000:]}")
    snapshot = lake(settings).load_table(EVENTS.name).current_snapshot()
    assert snapshot is not None
    return snapshot.timestamp_ms / 1000 - started


def _read(settings: Settings) -> int:
    """Messages that are merged into events."""
    catalog = lake(settings)
    if not catalog.table_exists(EVENTS.name):
        return 0
    snapshot = catalog.load_table(EVENTS.name).current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return sum(position.next for position in from_json(summary.get(OFFSETS, "{}")).values())
