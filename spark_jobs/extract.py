"""Job: read what is new in a cluster's trace topics into `lake.raw.trace_messages`, exactly once."""

from __future__ import annotations

import argparse
import sys
import time
import uuid

from pyspark.sql import SparkSession

from spark_jobs import tables
from spark_jobs.ingest import publish, raw, report
from spark_jobs.ingest.plan import Plan, plan, watch
from spark_jobs.ingest.positions import Queue, booked
from spark_jobs.ingest.source import TopicSource
from spark_jobs.rocketmq.datasource import RocketMQDataSource
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.session import session
from spark_jobs.settings import Cluster, Settings


def extract(spark: SparkSession, cluster: Cluster, settings: Settings, run_id: str) -> Plan:
    """Plan, read, audit and publish once; returns the plan, whose failures the caller reports."""
    spark.dataSource.register(RocketMQDataSource)
    before = booked(spark, settings, tables.RAW)
    with TopicSource(cluster) as source:
        queues: list[Queue] = []
        unreachable: dict[str, str] = {}
        for topic in cluster.trace_topics:
            try:
                queues += source.queues(topic)
            except RocketMQError as error:
                unreachable[f"{cluster.name}/{topic}"] = str(error)
        planned = plan(
            source,
            queues,
            before.positions,
            planned_at=int(time.time() * 1000),
            margin_ms=settings.extract.margin_seconds * 1000,
            max_offsets=settings.extract.max_offsets_per_run,
            expected_errors=(RocketMQError,),
        )
    planned.failures.update(unreachable)
    watch(
        planned,
        cluster,
        {topic for topic in cluster.trace_topics if f"{cluster.name}/{topic}" not in unreachable},
    )
    report.planned(planned)
    rows = raw.read(spark, cluster, planned, settings, run_id)
    raw.write(spark, rows, planned, run_id, before.head)
    return planned


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="name of a cluster in the settings")
    parser.add_argument("--run-id", default=uuid.uuid4().hex, help="stands in each row that is written")
    args = parser.parse_args(argv)
    settings = Settings()
    cluster = settings.cluster(args.cluster)
    spark = session(f"extract {cluster.name}", settings)
    tables.ensure(spark)
    started = time.monotonic()
    for attempt in publish.planning_again():
        with attempt:
            done = extract(spark, cluster, settings, args.run_id)
    report.extracted(done, time.monotonic() - started)
    return 1 if done.failures else 0


if __name__ == "__main__":
    sys.exit(main())
