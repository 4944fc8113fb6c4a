"""Job: put all marts back to an earlier publication together; the next run of the marts goes on from there."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.table import Table

from spark_jobs.erasure import rules
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.session import session
from spark_jobs.mart_build import branches, rebuild_state, report
from spark_jobs.mart_build.build import recover
from spark_jobs.mart_build.inputs import Published
from spark_jobs.mart_build.lock import no_rebuild, one_build
from spark_jobs.mart_build.rollback import Publication, RollbackError, chosen, publications, roll_back
from spark_jobs.serving import build as serving
from spark_jobs.settings import Settings

SHOWN = 20
_console = Console(stderr=True, width=140, highlight=False)


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__, with_dry_run=True)
    parser.add_argument(
        "--publication",
        help="the beginning of its id; by default the one that the published marts were computed from",
    )
    args = parser.parse_args(argv)
    try:
        return rollback(Settings(), args.publication, args.dry_run)
    except RollbackError as error:
        print(f"failed: {error}", file=sys.stderr, flush=True)
        return 1


def rollback(settings: Settings, publication: str | None, dry_run: bool) -> int:
    """Show the publications, and put the marts back to one; return an exit code.

    Raises:
        RollbackError: there is no such publication, or the marts cannot be put back to it; nothing has changed.
        lake.publish.PublishConflictError: another job published meanwhile.
    """
    started = time.monotonic()
    if Published.of(settings) is None:
        raise RollbackError("no marts are published")
    found = publications(lake(settings))
    show(found)
    to = chosen(found, publication)
    if dry_run:
        _console.print(f"the marts would be put back to {to.id}, of {to.published_at:%F %T} UTC")
        return 0
    rebuild_state.remove(settings.home)  # it has begun with the marts that are taken back
    with no_rebuild(settings.home, "rollback"), one_build(settings.home, "rollback"):
        spark = session("rollback", settings)
        tables.ensure(spark)
        catalog = lake(settings)
        report.recovered(recover(spark, catalog, settings))
        if rules.rules_of(settings, is_complete=False):
            raise RollbackError("an erasure is not complete: run `make erase` for it again first")
        to = chosen(publications(catalog), to.id)
        roll_back(spark, catalog, to)
        branches.drop_rebuild(spark, catalog)
        serving.build(settings, from_scratch=True)
    _console.print(
        f"put {len(to.snapshots)} tables back to publication {to.id}, of {to.published_at:%F %T} UTC, and built the serving "
        f"file, in {time.monotonic() - started:.0f} s. The next run of trace_marts computes what is new since",
        soft_wrap=True,
    )
    return 0


def show(found: list[Publication]) -> None:
    """Print the newest publications as a table."""
    shown = Table(
        "publication", "published (UTC)", "change_seq", "", title_justify="left", title="publications"
    )
    for each in found[:SHOWN]:
        state = "published now" if each.is_current else each.obstacle or ""
        shown.add_row(each.id[:12], f"{each.published_at:%F %T}", f"{each.change_seq_to:,}", state)
    _console.print(shown)


if __name__ == "__main__":
    sys.exit(run_job(main))
