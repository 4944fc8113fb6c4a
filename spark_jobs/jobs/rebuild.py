"""Job: compute all rows of changed models in steps, beside the normal runs, and publish the marts with them.

It first prints what it will compute, and how long that takes by what it took before. It goes on where a killed run has stopped.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from spark_jobs.alerts import run_checks
from spark_jobs.checks.check import Run
from spark_jobs.checks.registry import of_stage
from spark_jobs.jobs.marts import gate, serve_and_check
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake import planning, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import positions_at, read_offsets, records_after
from spark_jobs.lake.session import session
from spark_jobs.maintenance.retention import dropped_before
from spark_jobs.mart_build import dbt, rebuild_report, rebuild_state, report
from spark_jobs.mart_build.build import recover, row_counts
from spark_jobs.mart_build.inputs import Published, changed_models
from spark_jobs.mart_build.lock import one_build, one_rebuild, rebuilds
from spark_jobs.mart_build.rebuild import MOST_AT_THE_END, Rebuild, SupersededError
from spark_jobs.mart_build.rebuild_state import RebuildState
from spark_jobs.settings import Settings

UNPUBLISHED = "no marts are published yet"
UNCHANGED = "the published marts are those of the models"


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__, with_dry_run=True)
    args = parser.parse_args(argv)
    settings = Settings()
    published = Published.of(settings)
    definitions = dbt.definitions(settings.limits, settings.home / "dbt")
    if published is None or published.definitions == definitions.digest:
        if not args.dry_run and not rebuilds(settings.home):
            rebuild_state.remove(settings.home)  # of changes that were taken back
        rebuild_report.nothing(UNPUBLISHED if published is None else UNCHANGED)
        return 0
    changed = changed_models(settings, published, definitions)
    if not changed:
        rebuild_report.nothing("models were removed only: the next run of marts builds without them")
        return 0
    rebuild_report.planned(
        settings,
        definitions,
        changed,
        rebuild_state.load(settings.home),
        records_after(settings, None),
    )
    if args.dry_run:
        return 0
    with one_rebuild(settings.home, "rebuild"):
        spark = session("rebuild", settings)
        tables.ensure(spark)
        try:
            kept_from = partial(dropped_before, settings, tables.EVENTS.name)
            return rebuild(Rebuild(spark, lake(settings), settings, definitions, kept_from), args.run_id)
        except SupersededError as error:
            print(f"failed: {error}", file=sys.stderr, flush=True)
            return 1


def rebuild(of: Rebuild, run_id: str) -> int:
    """Do all steps, and publish; return an exit code. The caller holds the lock of the rebuilds."""
    settings, started = of.settings, time.monotonic()
    with one_build(settings.home, "rebuild"):
        report.recovered(recover(of.spark, of.catalog, of.settings))
        published = Published.of(settings)
        if published is None or published.definitions == of.definitions.digest:
            of.end()
            rebuild_report.nothing(UNPUBLISHED if published is None else UNCHANGED)
            return 0
        state = of.begin(published)
    steps = of.steps(state)
    for number, built in enumerate(of.run_steps(state, steps, run_id)):
        if not built.passed:
            report.refused(built, str(of.folder))
            return 1
        rebuild_report.done(number, steps, built.seconds)
    while records_after(settings, state.change_seq_to) > MOST_AT_THE_END:
        built, inputs = of.catch_up(state, run_id)
        if not built.passed:
            report.refused(built, str(of.folder))
            return 1
        of.keep(state, inputs)
        rebuild_report.caught_up(inputs, built.seconds)
    with one_build(settings.home, "rebuild"):
        return _publish(of, state, run_id, started)


def _publish(of: Rebuild, state: RebuildState, run_id: str, started: float) -> int:
    """Take up what was merged last, test and check everything, and publish it; return an exit code."""
    settings = of.settings
    report.recovered(recover(of.spark, of.catalog, of.settings))
    published = Published.of(settings)
    if published is None or published.definitions != state.replaces:
        of.end()
        raise SupersededError("other marts were published since the rebuild began: run it again")
    before = positions_at(settings, state.change_seq_to)
    compared = run_checks.compared_from(settings, of_stage(settings, "merge"), before)
    events = read_offsets(of.spark, settings, tables.EVENTS)
    with planning.for_records(of.spark, settings, records_after(settings, state.change_seq_to)):
        built, inputs = of.catch_up(state, run_id)
    run = Run(settings, datetime.now(UTC), of.spark, inputs.watermarks, compared_from=compared)
    built = replace(built, refused=gate(run, run_id, events.head)(built, state.branch))
    if not built.passed:
        report.refused(built, str(of.folder))
        return 1
    of.publish(state, built, inputs)
    report.published(built, row_counts(of.catalog, built.tables), time.monotonic() - started)
    serve_and_check(replace(run, now=datetime.now(UTC)), run_id)
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
