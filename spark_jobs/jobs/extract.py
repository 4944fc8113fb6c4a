"""Job: read the new messages of a cluster's trace topics into `lake.raw.trace_messages`, exactly once.

Before that, the brokers are asked for their facts (`lake.broker_facts`), so that facts are committed before the records that
are judged with them; and for messages that the marts suspect to be lost. No failure of that stops the extraction.
"""

from __future__ import annotations

import sys
import time

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.erasure.bodies import without_erased
from spark_jobs.erasure.rules import rules_of
from spark_jobs.ingest import raw
from spark_jobs.ingest.plan import Plan, without_queue
from spark_jobs.jobs import report
from spark_jobs.jobs.brokers import planned, record_facts
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.lake.session import session
from spark_jobs.rocketmq.datasource import RocketMQDataSource
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.settings import Cluster, Settings


def extract(
    spark: SparkSession, cluster: Cluster, settings: Settings, run_id: str, max_offsets: int | None = None
) -> tuple[Plan, raw.Written]:
    """Plan, read, audit and publish once; return the plan, whose failures the caller reports.

    At most `max_offsets` messages are read, by default `extract.max_offsets_per_run`. A queue that cannot be read to its
    planned end is left out, and the other queues are read again.

    Raises:
        RocketMQError: the cluster cannot be reached any more.
    """
    spark.dataSource.register(RocketMQDataSource)
    before = read_offsets(spark, settings, tables.RAW)
    todo = planned(cluster, settings, before.positions, max_offsets or settings.extract.max_offsets_per_run)
    report.planned(cluster.name, todo)
    while todo.positions != before.positions:
        rows = raw.read(spark, cluster, todo, settings, run_id)
        # Read after the committed offsets: an erasure that publishes in between makes this publication fail and retry.
        rows = without_erased(rows, rules_of(settings, cluster.name))
        try:
            return todo, raw.write(spark, rows, todo, run_id, before)
        except (PySparkException, Py4JJavaError) as error:
            found = raw.unreadable(error, todo)
            if found is None and (why := raw.unreachable(error, cluster)):
                raise RocketMQError(why) from error
            if found is None:
                raise
            report.left_out(*found)
            todo = without_queue(todo, found[0], before.positions, found[1])
    return todo, raw.Written({}, 0.0)  # nothing could be read: an empty commit would add nothing


def extract_and_report(
    spark: SparkSession, cluster: Cluster, settings: Settings, run_id: str, max_offsets: int | None = None
) -> tuple[Plan, raw.Written]:
    """`extract`, retried on a conflict with another writer, and printed."""
    started = time.monotonic()
    done, written = publish.retry_on_conflict()(extract, spark, cluster, settings, run_id, max_offsets)
    report.extracted(cluster.name, done, written, time.monotonic() - started)
    return done, written


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument("--cluster", required=True, help="name of a cluster in the settings")
    args = parser.parse_args(argv)
    settings = Settings()
    cluster = settings.cluster(args.cluster)
    spark = session(f"extract {cluster.name}", settings)
    tables.ensure(spark)
    record_facts(cluster, settings, args.run_id)
    done, _ = extract_and_report(spark, cluster, settings, args.run_id)
    return 1 if done.failures else 0


if __name__ == "__main__":
    sys.exit(run_job(main))
