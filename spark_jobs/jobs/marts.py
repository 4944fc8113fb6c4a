"""Job: build the marts from `lake.events.trace_records`, test and check them on a branch, publish them if all passed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from spark_jobs.alerts import run_checks
from spark_jobs.checks.check import Run
from spark_jobs.checks.evaluate import refusing
from spark_jobs.checks.registry import of_stage
from spark_jobs.jobs.run import job_parser, report_failure, run_job
from spark_jobs.jobs.serve import serve
from spark_jobs.lake import planning, tables
from spark_jobs.lake.catalog import lake, rewrites_since
from spark_jobs.lake.offsets import committed, positions_at, read_offsets, records_after
from spark_jobs.lake.session import session
from spark_jobs.maintenance.retention import dropped_before
from spark_jobs.mart_build import checked, dbt, durations, projects, report
from spark_jobs.mart_build.build import build_and_publish, recover, row_counts
from spark_jobs.mart_build.dbt import Build
from spark_jobs.mart_build.inputs import Published
from spark_jobs.mart_build.lock import build_at_once, one_build
from spark_jobs.process.file_lock import LockedError
from spark_jobs.settings import Settings

# A build of up to so many new records takes about as long as the merge of them.
MOST_FEW = 1_000_000


def gate(run: Run, run_id: str, events: int | None = None) -> Callable[[Build, str], list[str]]:
    """The audit of a build: a failed integrity check prevents its publication; checks of other classes never do.

    A replay, erasure or retention of events during the build prevents it too: the models have read different rows. The checks of
    raw and events compare the messages from `run.compared_from` on.

    Args:
        run: what the checks may read.
        run_id: written to each check result.
        events: the snapshot of events that the build started from.
    """

    def audit(built: Build, branch: str) -> list[str]:
        checks = of_stage(run.settings, "gate")
        checks += [each for each in of_stage(run.settings, "merge") if each.kind == "integrity"]
        found, _ = run_checks.evaluate_and_notify(
            checks, replace(run, now=datetime.now(UTC), build=built, branch=branch), run_id
        )
        rewritten = rewrites_since(run.settings, tables.EVENTS, events) if events is not None else []
        moved = [
            f"{tables.EVENTS.name}: snapshot {snapshot} replaced or deleted rows while the marts were built; run it again"
            for snapshot in rewritten
        ]
        return moved + refusing(found)

    return audit


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument(
        "--full-refresh",
        action="store_true",
        help="compute all rows whose records events holds, not only what changed since the last run",
    )
    args = parser.parse_args(argv)
    settings = Settings()
    with one_build(settings.home, "marts"):
        spark = session("marts", settings)
        tables.ensure(spark)
        return build(spark, settings, args.full_refresh, args.run_id)


def build(spark: SparkSession, settings: Settings, full_refresh: bool, run_id: str) -> int:
    """Build and publish what is new, or everything with `full_refresh`; return an exit code. The caller holds the lock."""
    started = time.monotonic()
    state, catalog = settings.home / "dbt", lake(settings)
    report.recovered(recover(spark, catalog, settings))
    published = Published.of(settings)
    events = read_offsets(spark, settings, tables.EVENTS)
    plan = projects.plan(
        settings,
        events,
        published,
        dbt.definitions_in(state),
        kept_from=dropped_before(settings, tables.EVENTS.name),
        full_refresh=full_refresh,
    )
    if plan is None or plan.inputs is None:
        report.nothing_merged()
        return 0
    inputs, project = plan.inputs, plan.project.folder
    if plan.postponed:
        report.postponed(plan.postponed)
    run = Run(settings, datetime.now(UTC), spark, inputs.watermarks)
    if inputs.adds_nothing_to(published) and not full_refresh:
        report.nothing_new(inputs)
        serve_and_check(run, run_id)
        return 0
    report.reading(inputs)
    merged = of_stage(settings, "merge")
    before = positions_at(settings, published.change_seq_to) if published else None
    run = replace(run, compared_from=run_checks.compared_from(settings, merged, before))
    # All records, if models are rebuilt.
    after = None if inputs.rebuilt else inputs.change_seq_from
    with planning.for_records(spark, settings, records_after(settings, after)):
        built = build_and_publish(
            spark, catalog, inputs, state, project, run_id, audit=gate(run, run_id, events.head)
        )
    if not built.passed:
        report.refused(built, str(state))
        serve(settings)  # what is published may be that of an earlier run, which was killed
        return 1
    if inputs.change_seq_from is None:
        models = {node.name: node.seconds for node in built.nodes if node.kind == "model"}
        durations.record(state, models, records_after(settings, None))
    report.published(built, row_counts(catalog, built.tables), time.monotonic() - started)
    serve_and_check(replace(run, now=datetime.now(UTC)), run_id)
    return 0


def build_few(spark: SparkSession, settings: Settings, run_id: str) -> None:
    """Build the marts in the session that has merged records, if that takes a short time.

    Otherwise nothing is built, which is printed, and `trace_marts` builds them: it starts as records were merged. A failure is
    printed, too, and met again by `trace_marts`.
    """
    try:
        if why := _left_to_trace_marts(settings):
            report.left(why)
            return
        with build_at_once(settings.home, "ingest"):
            build(spark, settings, full_refresh=False, run_id=run_id)
    except LockedError as error:
        report.left(f"{error.holder} builds them")
    except Exception as error:  # of any kind: the records are merged
        report_failure(error)


def _left_to_trace_marts(settings: Settings) -> str | None:
    """Why `build_few` builds nothing; None if it does."""
    events, published = committed(settings, tables.EVENTS), Published.of(settings)
    if events is None or events.change_seq == (published.change_seq_to if published else 0):
        return "no records are new"
    plan = projects.plan(settings, events, published, dbt.definitions_in(settings.home / "dbt"))
    inputs = plan.inputs if plan else None
    if inputs is None or inputs.change_seq_from is None or inputs.rebuilt:
        return "all rows of marts are to be computed"
    records = records_after(settings, inputs.change_seq_from)
    return f"{records:,} records are new" if records > MOST_FEW else None


def serve_and_check(run: Run, run_id: str) -> None:
    """Build the serving file of the published marts, and evaluate the checks of the marts."""
    run = replace(run, serving_error=serve(run.settings))
    run_checks.evaluate_and_notify(of_stage(run.settings, "marts"), run, run_id)
    published = Published.of(run.settings)
    if published and run.serving_error is None:
        checked.mark(run.settings, published.publication_id)


if __name__ == "__main__":
    sys.exit(run_job(main))
