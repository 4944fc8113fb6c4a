"""What a job says if its executors are missing or cannot run its tasks. Runs in `make soak`."""

from __future__ import annotations

import re
import time

import pytest

from sandbox.network import Network
from sandbox.spark_cluster import WORKERS, standalone
from tests.cluster.world import BROKER_SECRETS, Deployment, finished

pytestmark = pytest.mark.usefixtures("secrets")


def test_a_job_without_an_executor_ends_with_one_line(deployment: Deployment, merged: set[str]):
    greedy = deployment.settings.spark.model_copy(
        update={
            "executor_seconds": 3,
            "conf": {**deployment.settings.spark.conf, "spark.executor.memory": "9g"},
        }
    )
    started = time.monotonic()
    job = deployment.changed(spark=greedy).run("merge")
    assert job.code == 1
    assert re.match(r"failed: spark://\S+ gave this job no executor within 3 s", job.failure), job.output[
        -3000:
    ]
    assert "Traceback" not in job.output
    assert time.monotonic() - started < 300


def test_executors_without_python_end_it_with_one_line(deployment: Deployment, merged: set[str]):
    spark = deployment.settings.spark.model_copy(update={"python": "/no/such/python"})
    job = deployment.changed(spark=spark).run("merge")
    assert job.code == 1
    expected = r"failed: executors of spark://\S+ cannot run Python as /no/such/python"
    assert re.match(expected, job.failure), job.output[-3000:]


def test_a_job_whose_executors_are_lost_ends_with_one_line(
    deployment: Deployment, network: Network, merged: set[str]
):
    with standalone(network, BROKER_SECRETS) as cluster:
        spark = deployment.settings.spark.model_copy(
            update={"master": cluster.master, "executor_seconds": 15}
        )
        job = deployment.changed(spark=spark).start_module("tests.cluster.waiting")
        assert job.stdout is not None
        while "a task runs" not in job.stdout.readline():
            assert job.poll() is None
        for worker in range(WORKERS):
            cluster.kill_worker(worker)
        killed = time.monotonic()
        ended = finished(job)
    assert ended.code == 1
    expected = (
        r"failed: spark://\S+ gave this job no executor within 15 s .*Nothing that was published is lost"
    )
    assert re.match(expected, ended.failure), ended.output[-3000:]
    assert 15 < time.monotonic() - killed < 120
