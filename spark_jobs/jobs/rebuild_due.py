"""Job without Spark: whether the job `rebuild` has work to do: then the exit code is `WORK`.

It has if models or limits have changed, the normal runs leave them to it (`rebuild.at_once_records`), and no other process
rebuilds.
"""

from __future__ import annotations

import sys

from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake.offsets import committed
from spark_jobs.lake.tables import EVENTS
from spark_jobs.mart_build import projects, rebuild_state
from spark_jobs.mart_build.definitions import DBT_PROJECT, known, known_in
from spark_jobs.mart_build.inputs import Published
from spark_jobs.mart_build.lock import rebuilds
from spark_jobs.process.exit_codes import WORK
from spark_jobs.settings import Settings


def main(argv: list[str] | None = None) -> int:
    job_parser(__doc__).parse_args(argv)
    settings = Settings()
    events, published = committed(settings, EVENTS), Published.of(settings)
    if events is None or published is None:
        print("no marts are published yet: there is nothing to rebuild", file=sys.stderr)
        return 0
    if rebuilds(settings.home):
        print("another process rebuilds the marts", file=sys.stderr)
        return 0
    definitions = known(DBT_PROJECT, settings.limits, settings.home / "dbt")
    if definitions is not None and definitions.digest == published.definitions:
        rebuild_state.remove(settings.home)  # of changes that were taken back
    plan = projects.plan(settings, events, published, known_in(settings.home / "dbt"))
    if plan is None:
        print(
            "files of dbt_project or limits have changed: the next run of marts parses them", file=sys.stderr
        )
        return 0
    if not plan.postponed:
        print("nothing to rebuild", file=sys.stderr)
        return 0
    print(f"{len(plan.postponed)} models are to be rebuilt", file=sys.stderr)
    return WORK


if __name__ == "__main__":
    sys.exit(run_job(main))
