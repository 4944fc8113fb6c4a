"""An extraction and a merge on a Spark cluster, with one executor and with two, of one core each."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import psycopg2
from rich.console import Console

from benchmarks.extract import topic
from sandbox.broker import rocketmq
from sandbox.cpu_limit import limited
from sandbox.network import Network
from sandbox.postgres import running_postgres
from sandbox.spark_cluster import Standalone, standalone
from spark_jobs.settings import PROJECT

WARM = 300_000
MESSAGES = 700_000
ROUNDS = 3
# Two machines do not share their cores with each other, nor with the broker.
WORKER_CORES = 0.5
HOST, WORKERS = "127.0.0.1", ["127.0.0.2", "127.0.0.3"]


def measure(folder: Path, console: Console) -> float:
    """The ratio of the medians of one executor's seconds to two executors' seconds."""
    with (
        rocketmq(folder / "rocketmq", stop_in_order=False) as sandbox,
        running_postgres() as postgres,
        limited(WORKER_CORES, len(WORKERS)) as groups,
        standalone(Network(HOST, WORKERS, []), {}, memory="3g", groups=groups) as spark,
    ):
        warm = topic.write(sandbox.namesrv, sandbox.broker_name, folder, "bench-warm", WARM)
        timed = topic.write(sandbox.namesrv, sandbox.broker_name, folder, "bench-timed", MESSAGES)
        console.print(
            f"topic: {timed}; {timed.records:,} records. Each run is an application of its own with an empty lake "
            f"(catalog in Postgres, files in a folder); {warm.records:,} records are read and merged before, so "
            f"that its executors are warm. Each worker has one core for Spark and gets {WORKER_CORES} of a core of this "
            f"machine, with its executor and Python; driver, broker and Postgres have what is left of {os.cpu_count()}.",
            soft_wrap=True,
        )
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(ROUNDS):
            for cores in ((1, 2), (2, 1))[turn % 2]:
                found = _run(folder, f"run_{turn}_{cores}", spark, postgres, [warm, timed], cores)
                seconds[cores].append(found["extract"] + found["merge"])
                console.print(
                    f"round {turn + 1}, {cores} executor{'s' * (cores > 1)}: extraction {found['extract']:.1f} s, "
                    f"decode and merge {found['merge']:.1f} s"
                )
    return statistics.median(seconds[1]) / statistics.median(seconds[2])


def _run(
    folder: Path, name: str, spark: Standalone, postgres: int, topics: list[topic.Topic], cores: int
) -> dict[str, float]:
    connection = psycopg2.connect(host=HOST, port=postgres, user="postgres", dbname="postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"create database {name}")
    connection.close()
    clusters = [
        {"name": each.name, "namesrv": [each.namesrv], "trace_topics": [each.name]} for each in topics
    ]
    sections = {
        "CATALOG": {
            "kind": "postgres",
            "uri": f"jdbc:postgresql://{HOST}:{postgres}/{name}",
            "credentials_env": "PG",
        },
        "WAREHOUSE": {"uri": f"file:{folder / name}", "shared": True},
        "SPARK": {
            "master": spark.master,
            "driver_host": HOST,
            "cores_max": cores,
            "conf": {"spark.executor.memory": "2g"},
        },
        "CLUSTERS": clusters,
    }
    environment = os.environ | {f"TRACE_{key}": json.dumps(value) for key, value in sections.items()}
    environment |= {
        "TRACE_HOME": str(folder / f"home-{name}"),
        "PYTHONPATH": str(PROJECT),
        "PG_USER": "postgres",
        "PG_PASSWORD": "unused",
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster.once"], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
