"""Job: restore a backup into a `TRACE_HOME` without a lake. Later erasures are applied before anything else opens it."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from spark_jobs.backup import folder
from spark_jobs.backup.progress import progress_of
from spark_jobs.backup.restore import restore
from spark_jobs.erasure import rules
from spark_jobs.erasure.rules import Rule
from spark_jobs.jobs.erase import all_tables, erase_rule, finish
from spark_jobs.jobs.run import job_parser, report_failure, run_job
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.session import session
from spark_jobs.mart_build import report
from spark_jobs.mart_build.build import recover
from spark_jobs.mart_build.inputs import Published
from spark_jobs.process.file_lock import LockedError, locked
from spark_jobs.process.home import LOCK
from spark_jobs.serving import build as serving
from spark_jobs.settings import CATALOG, Settings

_console = Console(stderr=True, width=140, highlight=False)


def drop_refs(spark: SparkSession, settings: Settings) -> list[str]:
    """Drop all branches and tags, which would keep what is erased; return them.

    Those of jobs that ran during the backup are of no use: these jobs do not run here.
    """
    # A publication of marts that had begun needs its branches.
    report.recovered(recover(spark, lake(settings), settings))
    dropped = []
    for table in all_tables(settings):
        for name, ref in lake(settings).load_table(table).metadata.refs.items():
            if name != "main":
                kind = ref.snapshot_ref_type.value
                spark.sql(f"alter table {CATALOG}.{table} drop {kind} `{name}`")
                dropped.append(f"{table}: {kind} {name}")
    return dropped


def erase_again(run_id: str, settings: Settings, later: list[Rule]) -> None:
    """Apply erasures by their hashes.

    Raises:
        folder.BackupError: one is not complete.
    """
    spark = session("restore", settings)
    tables.ensure(spark)
    if dropped := drop_refs(spark, settings):
        _console.print(f"dropped, as they keep what is erased: {', '.join(dropped)}", soft_wrap=True)
    for number, rule in enumerate(later, 1):
        _console.print(f"erasure {number} of {len(later)}: a {rule.kind.value} of cluster {rule.cluster}")
        rules.store(spark, settings, rule, run_id)
        erase_rule(spark, settings, rule, None, run_id)
        if not finish(spark, settings, rule, None, run_id):
            raise folder.BackupError(
                "an erasure after the backup could not be applied: the lake stays closed"
            )


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument("--from", dest="root", type=Path, required=True, help="the folder of backups")
    parser.add_argument("--at", help="a backup of that time, such as 2026-11-26; by default the newest one")
    args = parser.parse_args(argv)
    settings, started, root = Settings(), time.monotonic(), args.root.absolute()
    made = folder.chosen(root, args.at)
    try:
        with locked(settings.home / LOCK, "make restore"), progress_of("reading and copying") as progress:
            done = restore(settings, root, made, progress, partial(erase_again, args.run_id))
    except LockedError as error:
        raise folder.BackupError(f"{error}: end that first") from None
    try:
        if Published.of(settings):
            serving.build(settings, from_scratch=True)
    except Exception as error:  # the next publication builds it
        report_failure(error)
    _console.print(
        f"restored {made} to {settings.home} in {time.monotonic() - started:.0f} s: {len(done.backup.tables)} tables and views, "
        f"{len(done.backup.files)} files, {done.backup.bytes / 1e6:,.1f} MB"
        f"{'; paths were rewritten' if done.relocated else ''}; {len(done.erased)} later erasures were applied",
        soft_wrap=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
