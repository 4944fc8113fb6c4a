"""Job: decode the messages that are in raw and not yet in events, merge them into `lake.events.trace_records`, run checks."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from spark_jobs.alerts import run_checks
from spark_jobs.checks.check import Run
from spark_jobs.checks.registry import of_stage
from spark_jobs.jobs import report
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import CommittedOffsets, committed, read_offsets
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings
from spark_jobs.trace.audit import Audit
from spark_jobs.trace.merge import merge, pending


def merge_pending(spark: SparkSession, settings: Settings, run_id: str) -> Audit:
    """Publish the records of all messages that are in raw and not in events."""
    raw = read_offsets(spark, settings, tables.RAW)
    events = read_offsets(spark, settings, tables.EVENTS)
    if raw.positions == events.positions:
        return Audit()
    ranges = pending(raw.positions, events.positions)
    audit = merge(spark, ranges, raw.positions, events, settings.limits, run_id)
    return replace(audit, raw_head=raw.head)


def merge_all(spark: SparkSession, settings: Settings, run_id: str) -> Audit:
    """`merge_pending`, retried on a conflict with another writer."""
    return publish.retry_on_conflict()(merge_pending, spark, settings, run_id)


def merge_and_check(spark: SparkSession, settings: Settings, run_id: str) -> None:
    """`merge_all`, then `check`."""
    started = time.monotonic()
    before = committed(settings, tables.EVENTS)
    audit = merge_all(spark, settings, run_id)
    report.merged(audit.records, time.monotonic() - started)
    check(spark, settings, before, audit, run_id)


def check(
    spark: SparkSession, settings: Settings, before: CommittedOffsets | None, audit: Audit, run_id: str
) -> None:
    """The checks of raw and events; the integrity checks compare what was merged since `before`.

    Args:
        spark: the session.
        settings: the lake and the limits.
        before: the offsets before the merge.
        audit: of the merge.
        run_id: of the run.
    """
    checks = of_stage(settings, "merge")
    since = run_checks.compared_from(settings, checks, before.positions if before else None)
    run_checks.evaluate_and_notify(
        checks, Run(settings, datetime.now(UTC), spark, compared_from=since, audit=audit), run_id
    )


def main(argv: list[str] | None = None) -> int:
    args = job_parser(__doc__).parse_args(argv)
    settings = Settings()
    spark = session("merge", settings)
    tables.ensure(spark)
    merge_and_check(spark, settings, args.run_id)
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
