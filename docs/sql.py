"""Run the SQL statements of standard input on the lake and print their rows: `python -m docs.sql <<'SQL'`.

The runbooks use it. A statement ends with `;` at the end of a line. It reads the settings of the jobs, `TRACE_SETTINGS` included.
"""

from __future__ import annotations

import re
import sys

from spark_jobs.lake.session import session
from spark_jobs.settings import load_settings

ROWS = 200


def statements(text: str) -> list[str]:
    """The statements of a text, without the semicolons that end them."""
    return [each.strip() for each in re.split(r";[ \t]*(?:\n|$)", text) if each.strip()]


def main() -> None:
    spark = session("sql", load_settings())
    for statement in statements(sys.stdin.read()):
        spark.sql(statement).show(ROWS, truncate=False)


if __name__ == "__main__":
    main()
