"""Job: one cycle of ingestion. Extract all clusters side by side, merge their records, run the checks of raw and events.

With `--marts` it builds the marts, too, if few records are new (`jobs.marts.build_few`): one Spark application then does a whole
cycle.

The merge does not wait long for a cluster that is slower than the others (`Extractions.wait`). Such a cluster is read on
while the merge runs, in pieces that are published one by one; what is left is read by the next cycle.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.ingest.side_by_side import FIRST_PIECE, Extraction, Extractions, next_piece, side_by_side
from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.jobs import report
from spark_jobs.jobs.brokers import record_facts
from spark_jobs.jobs.extract import extract_and_report
from spark_jobs.jobs.merge import merge_and_check
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake import tables
from spark_jobs.lake.session import session
from spark_jobs.rocketmq.errors import RocketMQError, of_cluster
from spark_jobs.settings import Cluster, Settings


def ingest(spark: SparkSession, clusters: list[Cluster], settings: Settings, run_id: str) -> Extractions:
    """Extract the clusters, and merge; return the extractions, whose failures the caller reports."""
    limit = settings.extract.max_offsets_per_run

    def extract(running: Extraction) -> None:
        cluster = settings.cluster(running.cluster)
        try:
            with suppress(RocketMQError), TopicSource(cluster, settings.extract) as source:
                source.queues(cluster.topics[0])
                running.answered = True
            record_facts(cluster, settings, run_id)
            piece = min(FIRST_PIECE, limit) if len(clusters) > 1 else limit
            while not running.abandoned.is_set():
                done, written = extract_and_report(spark, cluster, settings, run_id, piece)
                running.read += written.messages
                running.left = sum(step.lag for step in done.steps)
                running.failures = done.failures
                piece = min(next_piece(written.messages, written.seconds), limit - running.read)
                if not written.messages or not running.left or piece <= 0:
                    break
        # The brokers reject the credentials, or a secret is missing.
        except (RocketMQError, ValueError) as error:
            running.failures = {cluster.name: of_cluster(cluster.name, error)}

    names = [each.name for each in clusters]
    with side_by_side(names, extract, spark.sparkContext.cancelJobGroup) as extractions:
        if slow := extractions.wait(settings.extract.wait_seconds):
            report.not_waited_for(slow)
        merge_and_check(spark, settings, run_id)
    extractions.raise_error()
    return extractions


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument(
        "--cluster", action="append", help="name of a cluster in the settings, repeatable; by default all"
    )
    parser.add_argument(
        "--failures",
        type=Path,
        help="write the failed clusters to this file, as JSON: name to reasons. The exit code is then 0",
    )
    parser.add_argument(
        "--marts",
        action="store_true",
        help="build the marts, too, if few records are new. A failure of it is only printed",
    )
    args = parser.parse_args(argv)
    settings = Settings()
    clusters = [settings.cluster(name) for name in args.cluster] if args.cluster else settings.some_clusters
    spark = session("ingest", settings)
    tables.ensure(spark)
    extractions = ingest(spark, clusters, settings, args.run_id)
    failures = extractions.failures
    report.ingested(extractions.unfinished, failures)
    if args.failures:
        args.failures.write_text(json.dumps(failures))
    if args.marts:
        from spark_jobs.jobs.marts import build_few  # it loads dbt

        build_few(spark, settings, args.run_id)
    return 1 if failures and not args.failures else 0


if __name__ == "__main__":
    sys.exit(run_job(main))
