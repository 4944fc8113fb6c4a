"""What every release encodes and decodes, once a run, and our rows of the same bodies, in one Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.trace.decode import decode
from spark_jobs.trace.layouts import COLUMNS
from tests.conformance import java, matrix
from tests.conformance.columns import Row
from tests.conformance.foreign import BODIES
from tests.conformance.releases import RELEASES
from tests.planning import as_the_jobs

STORED = datetime(2023, 11, 14, 22, 15, tzinfo=UTC)
SHOWN = ["record_type", "layout", "invalid_reason", *COLUMNS]


@dataclass(frozen=True)
class Conformance:
    """The contexts that went in, what each release answered, and our rows by the text of a body."""

    contexts: Mapping[str, dict[str, list[matrix.Context]]]
    releases: Mapping[str, java.Release]
    rows: Mapping[str, list[Row]]


@pytest.fixture(scope="package")
def conformance(spark, tmp_path_factory) -> Conformance:
    folder = tmp_path_factory.mktemp("conformance")
    try:
        classes = java.compile_encoder(folder / "classes")
    except SystemExit as error:
        pytest.skip(f"NO CONFORMANCE TEST WITH THE JAVA RELEASES: {error}")
    contexts = {release: matrix.bodies(release) for release in RELEASES}
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda r: java.ask(r, classes, folder, contexts[r], BODIES), RELEASES)
        releases = dict(zip(RELEASES, answers, strict=True))
    bodies = {answer.body for release in releases.values() for answer in release.bodies.values()}
    return Conformance(contexts, releases, _decoded(spark, sorted(bodies)))


def _decoded(spark, bodies: list[str]) -> dict[str, list[Row]]:
    rows = [("c", "t", "b", 0, n, STORED, "h:1", bytearray(body.encode())) for n, body in enumerate(bodies)]
    frame = spark.createDataFrame(
        rows,
        "cluster string, trace_topic string, broker string, queue_id int, queue_offset bigint, "
        "store_time timestamp, born_host string, body binary",
    )
    records = decode(frame).withColumn("event_time", F.unix_millis("event_time"))
    found: dict[str, list[Row]] = {body: [] for body in bodies}
    for row in records.orderBy("queue_offset", "record_index").collect():
        found[bodies[row.queue_offset]].append({name: row[name] for name in SHOWN})
    return found


@pytest.fixture(scope="package", autouse=True)
def planned_as_the_jobs(spark: SparkSession) -> Iterator[None]:
    with as_the_jobs(spark):
        yield
