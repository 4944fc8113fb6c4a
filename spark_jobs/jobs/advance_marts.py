"""Job without Spark: advance the watermarks of the published marts if a build would not change them.

It publishes the watermarks of `lake.events.trace_records` by a commit without rows to `lake.marts.fct_messages`, whose snapshots
have the inputs of the published marts, and builds the serving file with them. If a build is due, it ends with the exit code
`WORK`: the job `marts` has work to do.
"""

from __future__ import annotations

import sys
import time
import uuid

from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.jobs.serve import serve
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import committed
from spark_jobs.lake.tables import EVENTS, missing
from spark_jobs.lake.without_rows import commit
from spark_jobs.mart_build import checked, due, projects, report
from spark_jobs.mart_build.definitions import known_in
from spark_jobs.mart_build.inputs import WITH_INPUTS, Inputs, Published
from spark_jobs.mart_build.lock import one_build
from spark_jobs.process.exit_codes import WORK
from spark_jobs.settings import Settings


def advance(settings: Settings, run_id: str) -> tuple[Inputs | None, str | None]:
    """Publish the watermarks of events, unless a build is due; return the inputs, and why Spark is needed or None.

    The inputs are None if nothing was merged yet, or if they are not known without Spark.

    The caller holds the lock of the builds.
    """
    head = _head(settings)
    published, events = Published.of(settings), committed(settings, EVENTS)
    if events is None:
        return None, None
    plan = projects.plan(settings, events, published, known_in(settings.home / "dbt"))
    if plan is None:
        return None, "files of dbt_project or limits have changed"
    inputs = plan.inputs
    if inputs is None:
        return None, None
    if added := missing(lake(settings)):
        return inputs, f"{', '.join(added)} is missing in the lake"
    if why := due.reason(settings, inputs, published):
        return inputs, why
    if published and not checked.is_checked(settings, published.publication_id):
        return (
            inputs,
            "the checks of the published marts were not evaluated, or their serving file was not built",
        )
    if not inputs.adds_nothing_to(published):
        publication_id = uuid.uuid4().hex
        if not commit(settings, WITH_INPUTS, head, inputs.snapshot_properties(publication_id, run_id)):
            return inputs, "another job has committed to the marts meanwhile"
        if error := serve(settings):
            return inputs, f"the serving file could not be built: {error}"
        checked.mark(settings, publication_id)
    return inputs, None


def _head(settings: Settings) -> int | None:
    if not lake(settings).table_exists(WITH_INPUTS):
        return None
    newest = lake(settings).load_table(WITH_INPUTS).current_snapshot()
    return newest.snapshot_id if newest else None


def main(argv: list[str] | None = None) -> int:
    args = job_parser(__doc__).parse_args(argv)
    settings, started = Settings(), time.monotonic()
    with one_build(settings.home, "advance_marts"):
        inputs, why = advance(settings, args.run_id)
    if why is not None:
        report.due(why)
        return WORK
    if inputs is None:
        report.nothing_merged()
        return 0
    report.advanced(inputs, time.monotonic() - started)
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
