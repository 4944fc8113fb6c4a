"""`spark.read.format("rocketmq")`: exact rows, exact offsets, and loud when it cannot be so."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.lake import tables
from spark_jobs.rocketmq.datasource import RocketMQDataSource
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, Written


class Source:
    """Reads of the written topics, with options as keyword arguments."""

    def __init__(self, spark: SparkSession, namesrv: str) -> None:
        self._spark = spark
        self._namesrv = namesrv

    def read(self, topic: str, **options: object) -> DataFrame:
        texts = {k: json.dumps(v) if isinstance(v, dict) else str(v) for k, v in options.items()}
        given = {"namesrv": self._namesrv, "topic": topic, **texts}
        return self._spark.read.format("rocketmq").options(**given).load()


@pytest.fixture(scope="module")
def source(spark: SparkSession, written: Written) -> Source:
    spark.dataSource.register(RocketMQDataSource)
    return Source(spark, written.sandbox.namesrv)


def at(offset: int, queue_id: int = 0) -> dict[str, dict[str, int]]:
    return {"broker-a": {str(queue_id): offset}}


def test_the_columns_are_those_of_the_raw_table(source: Source):
    added = ("min_records", "run_id", "ingested_at")  # by the extraction
    expected = [(c.name, c.type) for c in tables.RAW.columns if c.name not in added]
    assert source.read("three").dtypes == expected


def test_every_offset_once_from_many_partitions(source: Source):
    frame = source.read(LONG_TOPIC, maxOffsetsPerPartition=3000)
    assert frame.rdd.getNumPartitions() == 7
    row = frame.agg(
        F.count("*").alias("n"),
        F.count_distinct("queue_offset").alias("offsets"),
        F.min("queue_offset").alias("low"),
        F.max("queue_offset").alias("high"),
        F.count_if(F.substring(F.decode("body", "utf-8"), 1, 10).cast("long") != F.col("queue_offset")).alias(
            "wrong"
        ),
    ).first()
    assert row is not None
    assert row.asDict() == {
        "n": LONG_COUNT,
        "offsets": LONG_COUNT,
        "low": 0,
        "high": LONG_COUNT - 1,
        "wrong": 0,
    }


def test_a_row_is_the_message(source: Source, written: Written):
    java = written.as_java_reads["ZSTD"]
    frame = source.read("codec-ZSTD", cluster="c1", epochs=at(3), endingOffsets=at(len(written.bodies)))
    rows = frame.orderBy("queue_offset").collect()
    assert [bytes(row.body) for row in rows] == written.bodies
    row, expected = rows[1], java[1]
    assert (row.cluster, row.trace_topic, row.broker, row.queue_id, row.epoch) == (
        "c1",
        "codec-ZSTD",
        "broker-a",
        0,
        3,
    )
    assert (row.born_host, row.store_host) == (expected["born_host"], expected["store_host"])
    assert (row.sys_flag, row.body_crc, row.stored_size) == (
        0x201,
        expected["body_crc"],
        expected["stored_size"],
    )
    assert (row["keys"], row.properties, row.body_error) == ("key-1", expected["properties"], None)
    times = (
        frame.where("queue_offset = 1")
        .select(F.unix_millis("store_time"), F.unix_millis("born_time"))
        .first()
    )
    assert tuple(times or ()) == (expected["store_time"], expected["born_time"])


def test_several_queues_and_a_batch_larger_than_one_record_batch(source: Source):
    counts = source.read("three", maxOffsetsPerPartition=300).groupBy("queue_id").count().collect()
    assert {row.queue_id: row["count"] for row in counts} == {0: 1000, 2: 10}


def test_start_is_included_and_end_is_not(source: Source):
    rows = source.read("three", startingOffsets=at(5), endingOffsets=at(8)).select("queue_offset").collect()
    assert [row.queue_offset for row in rows] == [5, 6, 7]
    assert source.read("three", startingOffsets=at(5), endingOffsets=at(5)).count() == 0


def test_too_large_bodies_stay_as_they_are_stored(source: Source, written: Written):
    rows = source.read("codec-ZLIB", maxInflatedBytes=10_000).where("body_error is not null").collect()
    assert {row.queue_offset for row in rows} == {n for n, b in enumerate(written.bodies) if len(b) > 10_000}
    assert all(row.body_error.startswith("too large: ") for row in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": at(1001), "startingOffsets": at(990)}, "returned no message at offset 1000"),
        ({"endingOffsets": at(9001), "startingOffsets": at(9000)}, r"the broker has the offsets \[0, 1000\)"),
        ({"startingOffsets": at(5000)}, "the start 5000 .* is above the end 1000"),
        ({"startingOffsets": {"gone": {"0": 1}}}, "broker gone, queue 0: the route has no such queue"),
        ({"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
        ({"credentialsEnv": "UNSET_PREFIX"}, "UNSET_PREFIX_ACCESS_KEY and UNSET_PREFIX_SECRET_KEY"),
        ({"topic": "nowhere"}, "topic nowhere"),
        ({"namesrv": "127.0.0.1:9"}, "no nameserver answers"),
    ],
)
def test_what_cannot_be_read_in_full_fails(source: Source, options: dict[str, object], message: str):
    options = {"topic": "three", **options}
    with pytest.raises(PySparkException, match=message):
        source.read(**options).count()  # type: ignore[arg-type]
