"""Job: the checks over more than what is new: the tests of all published marts, and raw and events of the last days.

A build tests only the rows that it writes, and compares only the messages that it reads.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from spark_jobs.alerts import run_checks, silences
from spark_jobs.checks.check import Run
from spark_jobs.checks.evaluate import refusing
from spark_jobs.checks.registry import of_stage
from spark_jobs.jobs.maintain import WAITING
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake import tables
from spark_jobs.lake.session import session
from spark_jobs.mart_build import dbt, projects, report
from spark_jobs.mart_build.dbt import Build
from spark_jobs.mart_build.inputs import Inputs, Published
from spark_jobs.mart_build.lock import one_build
from spark_jobs.settings import Settings

# The tests that read marts only. Tests that compare with records would fail where retention has dropped records.
TESTS = (
    "test_name:unique_combination_of_columns",
    "test_name:expression_is_true",
    "facts_add_up_to_marts",
    "clusters_have_watermarks",
)


def over_all_rows(spark: SparkSession, settings: Settings, run_id: str) -> Build | None:
    """Run the tests and save the result (check `history_tests`); None if the models of the published marts are not known."""
    published, state = Published.of(settings), settings.home / "dbt"
    project = projects.of_published(settings, published, dbt.definitions_in(state)) if published else None
    if published is None or project is None:
        return None
    inputs = Inputs.over_all(published, project.limits)
    tested = dbt.dbt(
        "test",
        inputs,
        state,
        project.folder,
        "--select",
        *TESTS,
        "--exclude",
        "resource_type:seed",
    )
    run = Run(settings, datetime.now(UTC), spark, inputs.watermarks, tested)
    run_checks.evaluate_and_notify(of_stage(settings, "history"), run, run_id)
    return tested


def compare(spark: SparkSession, settings: Settings, run_id: str) -> list[str]:
    """Compare all messages of raw and events that were stored in the last `integrity_days`; return what is wrong."""
    checks = [each for each in of_stage(settings, "merge") if each.of_new_messages]
    found, _ = run_checks.evaluate_and_notify(checks, Run(settings, datetime.now(UTC), spark), run_id)
    return refusing(found)


def main(argv: list[str] | None = None) -> int:
    args = job_parser(__doc__).parse_args(argv)
    settings = Settings()
    spark = session("history tests", settings)
    tables.ensure(spark)
    # Its pool is that of the builds, which wait for it.
    with silences.maintenance_window(settings, WAITING["lake_marts"], args.run_id):
        wrong = compare(spark, settings, args.run_id)
        with one_build(settings.home, "history_tests"):
            tested = over_all_rows(spark, settings, args.run_id)
    report.tested(tested)
    return 1 if wrong or (tested is not None and not tested.passed) else 0


if __name__ == "__main__":
    sys.exit(run_job(main))
