"""One broker, one Java client and one Spark session for all tests of the jobs' faults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sandbox.broker import Sandbox, rocketmq
from spark_jobs.lake import tables
from spark_jobs.settings import Settings
from tests import lakes
from tests.client_process import ClientProcess
from tests.faults.jobs.world import World
from tests.java_process import java_process

# What takes minutes runs in `make soak` alone.
collect_ignore = [] if "TRACE_SOAK_CYCLES" in os.environ else ["test_cycles.py"]
# A broker turns producers away that have waited for 200 ms, as happens where all tests run at once.
BUSY_MACHINE = {"brokerFastFailureEnable": "false"}


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    folder = Path(tmp_path_factory.mktemp("faulty"))
    # Without the timer a broker of 5.5.0 answers deleteTopic with a NullPointerException.
    # It writes its wheel of 38 MB each second otherwise.
    conf = BUSY_MACHINE | {"timerWheelEnable": "true", "timerFlushIntervalMs": "3600000"}
    with rocketmq(folder, extra_broker_conf=conf, stop_in_order=False) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def second(broker: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Another broker at the same nameserver, with small files, which it deletes soon after a request."""
    folder = Path(tmp_path_factory.mktemp("second"))
    small = {
        "mappedFileSizeCommitLog": str(1024 * 1024),
        "mappedFileSizeConsumeQueue": "20000",
        "cleanResourceInterval": "500",
    }
    with rocketmq(
        folder,
        broker_name="broker-b",
        join=broker.namesrv,
        extra_broker_conf=BUSY_MACHINE | small,
        stop_in_order=False,
    ) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def java(broker: Sandbox) -> Iterator[ClientProcess]:
    with java_process("tests.faults.jobs.java_side", broker.namesrv, broker.folder / "java") as process:
        yield process


@pytest.fixture(scope="module")
def filled(spark: SparkSession, settings: Settings) -> SparkSession:
    """The session with the pipeline's tables, which fill up from test to test of a file: each looks at its own topic."""
    return with_tables(spark, settings)


def with_tables(spark: SparkSession, settings: Settings) -> SparkSession:
    """The session with an empty lake."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    for table in (tables.RAW, tables.EVENTS):  # a main from the start, as after the first run ever
        spark.createDataFrame([], table.schema).writeTo(table.full_name).append()
    return spark


@pytest.fixture
def world(filled, settings, broker, java, request: pytest.FixtureRequest) -> World:
    """A topic of the test's own with two queues, and nothing in it."""
    topic = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name).strip("-")[:100]
    made = World(filled, settings, broker, java, [topic])
    made.make_topics()
    return made
