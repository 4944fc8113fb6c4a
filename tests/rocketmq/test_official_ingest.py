"""The data source and an extraction with `client = "rocketmq-client-python"`: rows, audit and committed offsets are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.checks.brokers import query
from spark_jobs.ingest import lag, raw
from spark_jobs.ingest.reextract import ReextractRequest
from spark_jobs.jobs.brokers import planned
from spark_jobs.jobs.extract import extract_and_report as extract
from spark_jobs.jobs.reextract import reextract
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.lake.tables import RAW
from spark_jobs.rocketmq.datasource import RocketMQDataSource
from spark_jobs.rocketmq.librocketmq.limits import UnsupportedError
from spark_jobs.settings import Cluster, Settings
from tests import lakes, official_client
from tests.rocketmq.conftest import LONG_COUNT, LONG_ZLIB_TOPIC, Written

CLIENTS = ("remoting", "rocketmq-client-python")


@pytest.fixture(scope="module")
def package(spark: SparkSession) -> Iterator[Path]:
    """Spark's Python processes, too, can import the package; those that run already cannot."""
    for folder in official_client.importable():
        environment = spark.sparkContext.environment
        environment["PYTHONPATH"] = str(folder)
        try:
            yield folder
        finally:
            del environment["PYTHONPATH"]


def cluster(written: Written, client: str, *topics: str) -> Cluster:
    return Cluster.model_validate(
        {
            "name": "sandbox",
            "namesrv": [written.sandbox.namesrv],
            "trace_topics": list(topics),
            "client": client,
            "broker_facts": client == "remoting",
        }
    )


def source(spark: SparkSession, written: Written, topic: str, client: str) -> DataFrame:
    spark.dataSource.register(RocketMQDataSource)
    options = {"namesrv": written.sandbox.namesrv, "topic": topic, "client": client}
    return spark.read.format("rocketmq").options(**options, maxOffsetsPerPartition="6000").load()


def comparable(rows: DataFrame) -> DataFrame:
    """Rows that can be compared: a map as its sorted entries."""
    return rows.withColumn("properties", F.array_sort(F.map_entries("properties")))


def test_rows_and_schema_are_the_same(package: Path, spark: SparkSession, written: Written):
    ours, theirs = (source(spark, written, LONG_ZLIB_TOPIC, client) for client in CLIENTS)
    assert theirs.schema == ours.schema
    assert theirs.rdd.getNumPartitions() == 4
    hashes = [
        {
            row.queue_offset: row.hash
            for row in comparable(each).select("queue_offset", F.xxhash64("*").alias("hash")).collect()
        }
        for each in (ours, theirs)
    ]
    assert len(hashes[1]) == LONG_COUNT
    assert hashes[1] == hashes[0]


def test_a_query_that_meets_another_codec_fails_with_one_line(
    package: Path, spark: SparkSession, written: Written
):
    with pytest.raises(PySparkException, match="topic codec-LZ4, .*message at offset 0: .*as zlib"):
        source(spark, written, "codec-LZ4", "rocketmq-client-python").count()


def test_an_extraction_commits_the_same_rows_and_offsets(
    package: Path, lake: SparkSession, settings: Settings, written: Written
):
    found = {}
    for client in CLIENTS:
        lakes.empty(lake, settings)
        tables.ensure(lake)
        done, stored = extract(lake, cluster(written, client, "three", "codec-ZLIB"), settings, "run")
        assert not done.failures
        committed = read_offsets(lake, settings, RAW)
        rows = comparable(lake.table(RAW.full_name).drop("ingested_at")).orderBy(
            "trace_topic", "queue_id", "queue_offset"
        )
        # Both were complete up to the time at which they were planned.
        positions = {queue: replace(each, complete_to=0) for queue, each in committed.positions.items()}
        found[client] = stored.messages, stored.size, stored.queues, positions, rows.collect()
    assert found[CLIENTS[1]] == found[CLIENTS[0]]
    assert found[CLIENTS[1]][0] == 1010 + len(written.bodies)

    # A second run reads nothing again, and a backfill by offsets reads the same rows.
    native = cluster(written, CLIENTS[1], "three", "codec-ZLIB")
    assert extract(lake, native, settings, "again")[1].messages == 0
    some = next(queue for queue in found[CLIENTS[1]][3] if str(queue).endswith("three/broker-a/0"))
    (again,) = reextract(lake, settings, native, ReextractRequest(10, 30, some), "backfill", False)
    assert (again.range.start, again.range.end, again.rows_before) == (10, 30, 20)
    with pytest.raises(UnsupportedError, match="cluster sandbox: .* cannot find the offset of a time"):
        reextract(lake, settings, native, ReextractRequest(0, 1), "by time", False)


def test_the_audit_fails_if_a_message_is_missing(
    package: Path, lake: SparkSession, settings: Settings, written: Written, monkeypatch: pytest.MonkeyPatch
):
    read = raw.read
    monkeypatch.setattr(raw, "read", lambda *given: read(*given).where("queue_offset != 500"))
    with pytest.raises(publish.AuditError, match="1000 offsets from 0 were planned, 999 rows"):
        extract(lake, cluster(written, CLIENTS[1], "three"), settings, "run")


def test_a_queue_that_cannot_be_read_is_one_line_of_the_plan(
    package: Path, settings: Settings, written: Written
):
    plan = planned(cluster(written, CLIENTS[1], "codec-LZ4", "three"), settings, {}, 10_000)
    ((queue, why),) = plan.failures.items()
    assert queue.endswith("codec-LZ4/broker-a/0")
    assert "cannot be inflated as zlib" in why
    assert "\n" not in why
    assert {each.range.queue.trace_topic for each in plan.steps} == {"three"}


def test_the_checks_and_the_trigger_ask_through_the_library_too(
    package: Path, lake: SparkSession, settings: Settings, written: Written
):
    native = cluster(written, CLIENTS[1], "three")
    with lag.client(settings, native) as client:
        found = lag.unread_traces(settings, native, client)
    unread = {
        str(lag.name(native, queue)): len(offsets) for queue, offsets in found.offsets.items() if offsets
    }
    assert unread == {"sandbox/three/broker-a/0": 1000, "sandbox/three/broker-a/2": 10}
    answers = query(settings.model_copy(update={"clusters": [native]}), {}, 60)["sandbox"]
    assert answers.failures == []
    assert sorted(state.unread for state in answers.seen.values()) == [0, 10, 1000]
    assert {state.stored_at is None for state in answers.seen.values() if state.unread} == {False}
