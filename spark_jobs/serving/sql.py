"""`make sql`: DuckDB's shell on the newest serving file, or the rows of one query."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from spark_jobs.serving.contents import ServingFileError, current_file
from spark_jobs.serving.object_store import shell_statements
from spark_jobs.settings import load_settings
from spark_jobs.settings_error import SettingsError

_FORMATS = {"table": "-box", "csv": "-csv", "json": "-json"}


def main(argv: list[str] | None = None) -> None:
    """Replace this process by the shell, which opens the file read-only; the shell's exit code is 1 for a wrong query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", help="print its rows and exit; without it, a shell starts")
    parser.add_argument(
        "--format", choices=_FORMATS, default="table", help="of the rows (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    try:
        settings = load_settings()
        file, statements = current_file(settings), shell_statements(settings)
    except (ServingFileError, SettingsError) as error:
        sys.exit(f"failed: {error}")
    shell = Path(sys.executable).with_name("duckdb")
    query = ["-no-init", "-c", args.query] if args.query else []
    # Statements that return a row, such as `create secret`, would print it.
    quiet = [".output /dev/null", *(f"{each};" for each in statements), ".output"] if statements else []
    before = [argument for each in quiet for argument in ("-cmd", each)]
    os.execv(shell, [str(shell), "-readonly", "-bail", _FORMATS[args.format], *before, str(file), *query])


if __name__ == "__main__":
    main()
