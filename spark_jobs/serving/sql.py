"""`make sql`: DuckDB's shell on the newest serving file, or the rows of one query."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from spark_jobs.serving.contents import ServingFileError, current_file
from spark_jobs.settings import load_settings

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
        file = current_file(load_settings())
    except ServingFileError as error:
        sys.exit(f"failed: {error}")
    shell = Path(sys.executable).with_name("duckdb")
    query = ["-no-init", "-c", args.query] if args.query else []
    os.execv(shell, [str(shell), "-readonly", "-bail", _FORMATS[args.format], str(file), *query])


if __name__ == "__main__":
    main()
