"""The serving file, as a step of the jobs that publish marts."""

from __future__ import annotations

from spark_jobs.jobs.run import report_failure
from spark_jobs.mart_build import report
from spark_jobs.mart_build.inputs import Published
from spark_jobs.serving import build
from spark_jobs.serving.contents import is_current
from spark_jobs.settings import Settings


def serve(settings: Settings) -> str | None:
    """Build the serving file of the published marts, unless it has them; return why that failed.

    A failure fails no job: the check `serving_file` reports it, and the next run tries again.
    """
    try:
        published = Published.of(settings)
        if published and not is_current(settings, published.publication_id):
            new = build.build(settings)
            report.serving(new.file, new.seconds)
    except Exception as error:
        report_failure(error)
        return " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return None
