"""What is verified before Airflow starts, so that a wrong setting is one line and not a failed DAG run."""

from __future__ import annotations

import sys
from contextlib import suppress

from spark_jobs.settings import Settings


def exit_if_wrong_lake(settings: Settings) -> None:
    """End where the lake is not the one that the settings mean; a catalog that is away is for the jobs to report.

    Raises:
        SystemExit: it is another lake, or a copy; the message says what to do.
    """
    from spark_jobs.lake.catalog import lake
    from spark_jobs.lake.identity import WrongLakeError

    with suppress(Exception):
        try:
            lake(settings)
        except WrongLakeError as error:
            sys.exit(f"failed: {error}")
