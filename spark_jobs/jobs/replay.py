"""Job: replay, a backfill from raw: decode its messages again, after a change of the decoder, and replace changed records.

There is one commit per day of store time. A replay that was interrupted can start again at any day: it is idempotent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.alerts import silences
from spark_jobs.jobs import report
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.lake.session import session
from spark_jobs.maintenance.retention import dropped_before
from spark_jobs.settings import Settings
from spark_jobs.trace.replay import Replayed, days_between, replay

# The checks that would fail because ingest and marts wait for the pool slot that a long backfill holds.
WAITING = ("ingest_silent", "freshness_raw", "freshness_events", "marts_silent", "freshness_marts")


def replay_all(
    spark: SparkSession,
    settings: Settings,
    start: datetime,
    end: datetime,
    run_id: str,
    dry_run: bool = False,
    among: DataFrame | None = None,
    waiting: Sequence[str] = (),
) -> list[Replayed]:
    """Replay messages stored in [start, end), day by day; each day is retried on a conflict with another writer.

    With `among` (rows of raw) only those messages. What retention has dropped from raw or from events is left out.
    Each day opens a maintenance window of its own for the checks `waiting`: a window expires by itself after a crash, and
    one window would be too short for many days.
    """
    gone = max(dropped_before(settings, table) or start for table in (tables.RAW.name, tables.EVENTS.name))
    if gone > start:
        report.dropped(gone)
        start = gone
    if read_offsets(spark, settings, tables.EVENTS).head is None:
        return []  # nothing was ever merged
    done = []
    for begin, until in days_between(spark, start, end, among):
        with silences.maintenance_window(settings, waiting, run_id) if waiting else nullcontext():
            for attempt in publish.retry_on_conflict():
                with attempt:
                    events = read_offsets(spark, settings, tables.EVENTS)
                    found = replay(spark, begin, until, events, settings.limits, run_id, dry_run, among)
        report.replayed_day(found)
        done.append(found)
    return done


def replay_messages(
    spark: SparkSession,
    settings: Settings,
    messages: DataFrame,
    run_id: str,
    waiting: Sequence[str] = (),
) -> list[Replayed]:
    """Replay these messages (rows of raw), whenever they were stored; those without a store time are left out."""
    first, last = messages.select(
        F.date_format(F.min("store_time"), "yyyy-MM-dd"), F.date_format(F.max("store_time"), "yyyy-MM-dd")
    ).collect()[0]
    if first is None:
        return []
    start, end = datetime.fromisoformat(first), datetime.fromisoformat(last) + timedelta(days=1)
    return replay_all(spark, settings, start, end, run_id, among=messages, waiting=waiting)


def moment(text: str) -> datetime:
    """A date or time of ISO 8601 as UTC, without its zone; one without a zone is UTC.

    Raises:
        argparse.ArgumentTypeError: it is not a date or time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write 2026-11-21 or 2026-11-21T08:30"
        ) from error
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__, with_dry_run=True)
    parser.add_argument("--from", dest="start", type=moment, required=True, help="first store time, UTC")
    parser.add_argument("--to", dest="end", type=moment, required=True, help="store time to stop before, UTC")
    args = parser.parse_args(argv)
    if args.start >= args.end:
        parser.error(f"--from {args.start} is not before --to {args.end}")
    settings = Settings()
    spark = session("replay", settings)
    tables.ensure(spark)
    days = replay_all(spark, settings, args.start, args.end, args.run_id, args.dry_run, waiting=WAITING)
    report.replayed(days, args.dry_run)
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
