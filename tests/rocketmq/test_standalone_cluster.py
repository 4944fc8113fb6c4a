"""Extraction on a real Spark standalone cluster: the executors are processes that know nothing of the project."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from deploy import child_process
from deploy.show import rows
from spark_jobs.settings import Settings
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, Written

WORKERS = 2


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The master's URL, and the folder below which each worker keeps its executors' logs."""
    folder = tmp_path_factory.mktemp("standalone")
    with ExitStack() as servers:
        start = "org.apache.spark.deploy.{} --host 127.0.0.1 --port 0 --webui-port 0"
        servers.enter_context(running(folder / "master", start.format("master.Master")))
        url = wait_for(folder / "master" / "log", r"spark://127\.0\.0\.1:\d+", 1)
        for number in range(WORKERS):
            work = folder / f"worker-{number}"
            worker = f"{start.format('worker.Worker')} --cores 1 --memory 1g --work-dir {work} {url}"
            servers.enter_context(running(work, worker))
        wait_for(folder / "master" / "log", "Registering worker", WORKERS)
        yield url, folder


@contextmanager
def running(folder: Path, command: str) -> Iterator[None]:
    """A Spark daemon in a folder of its own, without any path to this project."""
    folder.mkdir()
    home = Path(pyspark.__file__).parent
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    env |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with (folder / "log").open("w") as log:
        process = child_process.spawn(
            [str(home / "bin" / "spark-class"), *command.split()],
            env=env,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            child_process.end(process, grace_seconds=5)


def wait_for(log: Path, pattern: str, times: int) -> str:
    """Wait until the log holds the pattern so many times; returns the last."""
    give_up = time.monotonic() + 60
    while len(found := re.findall(pattern, log.read_text())) < times:
        assert time.monotonic() < give_up, log.read_text()[-3000:]
        time.sleep(0.2)
    return found[-1]


def test_executors_in_processes_of_their_own_read_every_message(
    written: Written, spark_cluster: tuple[str, Path], tmp_path: Path
):
    url, folder = spark_cluster
    cluster = {"name": "c", "namesrv": [written.sandbox.namesrv], "trace_topics": [LONG_TOPIC]}
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    settings = {
        "TRACE_HOME": str(tmp_path),
        "TRACE_CLUSTERS": json.dumps([cluster]),
        "TRACE_SPARK_MASTER": url,
        "TRACE_SPARK_CONF": json.dumps(conf),
        "TRACE_EXTRACT__MAX_OFFSETS_PER_PARTITION": "2500",
    }
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.jobs.extract", "--cluster", "c"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = rows(Settings(home=tmp_path), "raw.trace_messages", "queue_offset")["queue_offset"]
    assert sorted(found.to_pylist()) == list(range(LONG_COUNT))
    executors = list(folder.glob("worker-*/app-*/*/stderr"))
    assert len(executors) == WORKERS
    assert all("Finished task" in log.read_text() for log in executors)
