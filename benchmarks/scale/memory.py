"""`python -m benchmarks.scale.memory`: one extraction and one merge into an empty lake, in a JVM that has done nothing before.

It reads the settings from the environment, and prints what both used, as JSON. A JVM does not give its memory back, so each
number of messages needs a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.extract import topic
from benchmarks.scale.used import Gauge, Used
from sandbox.broker import rocketmq
from spark_jobs.jobs.extract import extract_and_report
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import tables
from spark_jobs.lake.session import session
from spark_jobs.settings import PROJECT, Cluster, Settings

TOPIC = "bench-memory"


@dataclass(frozen=True)
class Run:
    """A run of so many messages: its records, the bytes that the messages have in the brokers' store, what its stages used."""

    messages: int
    records: int
    stored: int
    extract: Used
    merge: Used

    @property
    def memory(self) -> int:
        """The peak of both stages, bytes."""
        return max(self.extract.memory, self.merge.memory)


def measure(folder: Path, messages: list[int], console: Console) -> list[Run]:
    """A run for each number of messages, of one topic."""
    with rocketmq(folder / "rocketmq", stop_in_order=False) as sandbox:
        written = topic.write(sandbox.namesrv, sandbox.broker_name, folder, TOPIC, max(messages))
        console.print(f"topic: {written}", soft_wrap=True)
        cluster = Cluster(name="c", namesrv=[sandbox.namesrv], trace_topics=[TOPIC])
        return [_run(folder / str(each), cluster, each, console) for each in messages]


def _run(home: Path, cluster: Cluster, messages: int, console: Console) -> Run:
    environment = os.environ | {
        "TRACE_HOME": str(home),
        "TRACE_CLUSTERS": json.dumps([cluster.model_dump(exclude_none=True)]),
        "TRACE_EXTRACT__MAX_OFFSETS_PER_RUN": str(messages),
        "TRACE_SPARK__MASTER": "local[2]",
        "PYTHONPATH": str(PROJECT),
    }
    console.print(f"a run of {messages:,} messages starts")
    command = [sys.executable, "-m", "benchmarks.scale.memory"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    run = Run(**found | {stage: Used(**found[stage]) for stage in ("extract", "merge")})
    console.print(
        f"a run of {messages:,} messages, {run.records:,} records: extract {run.extract.wall:.0f} s, merge "
        f"{run.merge.wall:.0f} s on the clock; at most {run.memory / 1e6:,.0f} MB are resident"
    )
    return run


def main() -> None:
    settings = Settings()
    (cluster,) = settings.clusters
    spark = session("bench scale", settings)
    tables.ensure(spark)
    gauge = Gauge(spark, settings.home / "warehouse")
    (plan, written), extracted = gauge.measure(partial(extract_and_report, spark, cluster, settings, "bench"))
    assert not plan.failures, plan.failures
    audit, merged = gauge.measure(partial(merge_all, spark, settings, "bench"))
    print(json.dumps(asdict(Run(written.messages, audit.records, written.size, extracted, merged))))


if __name__ == "__main__":
    main()
