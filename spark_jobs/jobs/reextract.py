"""Job: re-extract, a backfill from the brokers: read messages again, by store time or offsets, and decode them again.

The rows of raw are replaced by what the broker returns now, then the changed records in events. Messages that the broker
no longer has are not changed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from datetime import UTC
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.alerts import silences
from spark_jobs.erasure.bodies import without_erased
from spark_jobs.erasure.rules import rules_of
from spark_jobs.ingest import raw
from spark_jobs.ingest.reextract import (
    ReextractRange,
    ReextractRequest,
    as_plan,
    plan_reextract,
    replace_in_raw,
    with_row_counts,
)
from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.jobs import report
from spark_jobs.jobs.replay import WAITING, moment, replay_messages
from spark_jobs.jobs.run import job_parser, raise_if_fatal, report_failure, run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import Queue, read_offsets
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.session import session
from spark_jobs.rocketmq.datasource import RocketMQDataSource
from spark_jobs.rocketmq.librocketmq.limits import NO_TIME, OFFICIAL, UnsupportedError
from spark_jobs.settings import Cluster, Settings


def reextract(
    spark: SparkSession,
    settings: Settings,
    cluster: Cluster,
    request: ReextractRequest,
    run_id: str,
    dry_run: bool,
) -> list[ReextractRange]:
    """Plan, read, audit and publish once, in raw only; return what was read again, or would be.

    Raises:
        RocketMQError, QueueError: a broker cannot be queried; nothing is changed.
        UnsupportedError: the cluster's client cannot find the offsets of a time.
        publish.PublishConflictError, publish.AuditError: the same as `replace_in_raw` raises.
    """
    spark.dataSource.register(RocketMQDataSource)
    committed = read_offsets(spark, settings, tables.RAW)
    if committed.head is None:
        return []  # nothing was ever read
    if request.queue is None and cluster.client == OFFICIAL:
        raise UnsupportedError(f"cluster {cluster.name}: {NO_TIME}")
    with TopicSource(cluster, settings.extract) as source:
        queues = [queue for topic in cluster.topics for queue in source.queues(topic)]
        again = plan_reextract(source, queues, committed.positions, request)
    again = with_row_counts(spark, again, committed.head)
    if again and not dry_run:
        plan = as_plan(again, committed, int(time.time() * 1000))
        rows = raw.read(spark, cluster, plan, settings, run_id)
        rows = without_erased(rows, rules_of(settings, cluster.name))
        replace_in_raw(spark, rows, again, committed, run_id)
    return again


def request_from(args: argparse.Namespace, parser: argparse.ArgumentParser) -> ReextractRequest:
    """The request of the arguments; the parser ends the job if they contradict each other."""
    times, offsets = (args.start, args.end), (args.queue, args.from_offset, args.to_offset)
    by_time = None not in times and not any(each is not None for each in offsets)
    by_offset = None not in offsets and times == (None, None)
    if by_time == by_offset:
        parser.error("give either --from and --to, or --queue, --from-offset and --to-offset")
    if by_time:
        start, end = (int(each.replace(tzinfo=UTC).timestamp() * 1000) for each in (args.start, args.end))
    else:
        start, end = args.from_offset, args.to_offset
    if start >= end:
        parser.error(f"the start is not before the end: {start}, {end}")
    return ReextractRequest(start, end, None if by_time else args.queue)


def _given(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of an argument of that kind; the DAG passes an empty text for one that was not given."""

    def parse(text: str) -> Any:
        try:
            return kind(text) if text else None
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def arguments() -> argparse.ArgumentParser:
    """The arguments of the job."""
    parser = job_parser(__doc__, with_dry_run=True)
    parser.add_argument("--cluster", help="name of a cluster in the settings; without it all of them")
    parser.add_argument("--from", dest="start", type=_given(moment), help="first store time, UTC")
    parser.add_argument("--to", dest="end", type=_given(moment), help="store time to stop before, UTC")
    parser.add_argument(
        "--queue", type=_given(Queue.parse), help="<cluster>/<trace topic>/<broker>/<queue id>"
    )
    parser.add_argument("--from-offset", type=_given(int), help="first offset of that queue")
    parser.add_argument("--to-offset", type=_given(int), help="offset to stop before")
    return parser


def main(argv: list[str] | None = None) -> int:
    parser = arguments()
    args = parser.parse_args(argv)
    request = request_from(args, parser)
    settings = Settings()
    name = request.queue.cluster if request.queue else args.cluster
    try:
        clusters = [settings.cluster(name)] if name else settings.some_clusters
    except ValueError as error:
        parser.error(str(error))
    spark = session("reextract", settings)
    tables.ensure(spark)
    failed = False
    for cluster in clusters:
        try:
            with silences.maintenance_window(settings, WAITING, args.run_id):
                again = publish.retry_on_conflict()(
                    reextract, spark, settings, cluster, request, args.run_id, args.dry_run
                )
        except ValueError as error:
            sys.exit(str(error))
        except Exception as error:  # of any kind: the other clusters are still read
            raise_if_fatal(error)
            report_failure(error)
            report.cluster_failed(cluster.name, error)
            failed = True
            continue
        report.reextracted(again, args.dry_run)
        if again and not args.dry_run:
            messages = rows_in(spark.table(tables.RAW.full_name), [each.range for each in again])
            report.replayed(replay_messages(spark, settings, messages, args.run_id, WAITING), dry_run=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_job(main))
