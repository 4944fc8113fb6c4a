"""`make docs`: dbt's site of the models, their columns, tests and lineage, as one HTML file; needs no Spark and no tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dbt.cli.main import dbtRunner

from spark_jobs.mart_build.definitions import DBT_PROJECT
from spark_jobs.mart_build.inputs import Inputs
from spark_jobs.process.home import keep_private
from spark_jobs.settings import Settings, load_settings


def write(folder: Path, settings: Settings) -> Path:
    """Write the site below `folder`; returns the page.

    Raises:
        SystemExit: dbt could not make it; the message is dbt's own.
    """
    # As in an incremental run, which has every model.
    no_records = Inputs(0, {}, settings.limits, change_seq_from=0)
    result = dbtRunner().invoke(
        [
            *("--quiet", "--log-path", str(folder / "logs"), "--no-populate-cache"),
            *("docs", "generate", "--static", "--empty-catalog"),
            *("--project-dir", str(DBT_PROJECT), "--profiles-dir", str(DBT_PROJECT)),
            *("--target-path", str(folder), "--vars", json.dumps(no_records.dbt_vars)),
        ]
    )
    if not result.success:
        sys.exit(f"dbt docs generate failed: {result.exception}; see {folder / 'logs' / 'dbt.log'}")
    return folder / "static_index.html"


if __name__ == "__main__":
    settings = load_settings()
    keep_private(settings.home)
    print(f"open {write(settings.home / 'docs', settings)}")
