"""Run the SQL statements of standard input on the lake and print their rows: `python -m docs.sql <<'SQL'`.

The runbooks use it. A statement ends with `;` at the end of a line. It reads the settings of the jobs, `TRACE_SETTINGS` included.
"""

from __future__ import annotations

import re
import sys

from spark_jobs.jobs.run import run_job
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings

ROWS = 200


def statements(text: str) -> list[str]:
    """The statements of a text, without the semicolons that end them."""
    return [each.strip() for each in re.split(r";[ \t]*(?:\n|$)", text) if each.strip()]


def main() -> int:
    spark = session("sql", Settings())
    for statement in statements(sys.stdin.read()):
        spark.sql(statement).show(ROWS, truncate=False)
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
