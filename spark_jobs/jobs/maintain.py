"""Job: maintain the tables by policy (`settings.TABLE_POLICIES`): retention, compaction, snapshot expiry, orphan files."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from spark_jobs.alerts import silences
from spark_jobs.jobs.run import job_parser, raise_if_fatal, report_failure, run_job
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.session import session
from spark_jobs.maintenance import report
from spark_jobs.maintenance.table import maintain_table, tables_of
from spark_jobs.mart_build import branches, publication
from spark_jobs.mart_build.lock import one_build
from spark_jobs.serving import files
from spark_jobs.settings import Settings, TablePolicy

# The checks that would fail because jobs wait for the pool slot that maintenance holds.
WAITING = {
    "lake_publish": ("ingest_silent", "freshness_raw", "freshness_events"),
    "lake_marts": ("marts_silent", "freshness_marts"),
}


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__, with_dry_run=True)
    parser.add_argument("--pool", help="only tables whose writers share this Airflow pool; all without it")
    args = parser.parse_args(argv)
    settings = Settings()
    spark = session("maintain", settings)
    tables.ensure(spark)
    # Tables of one run come and go with the builds.
    chosen = [
        (name, policy)
        for name, policy in tables_of(spark, settings, args.pool)
        if _namespace(name) not in branches.TRANSIENT_NAMESPACES
    ]
    # A policy may give a table of the marts another pool than that of their builds.
    of_marts = not args.dry_run and any(_namespace(name) in branches.NAMESPACES for name, _ in chosen)
    with one_build(settings.home, "maintain") if of_marts else nullcontext():
        return maintain(spark, settings, args, chosen, of_marts)


def maintain(
    spark: SparkSession,
    settings: Settings,
    args: argparse.Namespace,
    chosen: list[tuple[str, TablePolicy]],
    of_marts: bool,
) -> int:
    """Maintain the tables; return an exit code. If some are `of_marts`, the caller holds the lock of the builds."""
    if of_marts:
        # A commit to a table of an unfinished publication would make it impossible to finish.
        publication.roll_forward(spark, lake(settings))
        files.remove_superseded(settings, timedelta(minutes=settings.serving.keep_minutes))
    started, now, done, failed = time.monotonic(), datetime.now(UTC), [], False
    checks = [check for pool in WAITING if args.pool in (None, pool) for check in WAITING[pool]]
    with nullcontext() if args.dry_run else silences.maintenance_window(settings, checks, args.run_id):
        for name, policy in chosen:
            try:
                done.append(maintain_table(spark, settings, name, policy, now, args.run_id, args.dry_run))
            except Exception as error:  # of any kind: the other tables are still maintained
                raise_if_fatal(error)
                report_failure(error)
                report.failed(name, error)
                failed = True
    report.kept(done, args.dry_run, time.monotonic() - started)
    return 1 if failed else 0


def _namespace(table: str) -> str:
    return table.partition(".")[0]


if __name__ == "__main__":
    sys.exit(run_job(main))
