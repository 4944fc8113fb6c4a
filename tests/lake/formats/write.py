"""Write the small lake of a format: `python -m tests.lake.formats.write 1`.

Run once per format, with the version of the project that introduces it, and commit the archive. The lake is that of `make demo`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from spark_jobs.lake.session import session
from spark_jobs.settings import PROJECT, Settings
from tests.lake.formats.archive import archive_of, pack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int, help="the lake format of this version")
    parser.add_argument("--home", type=Path, help="folder of the lake; without it a demo is run in a new one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        home = args.home or run_demo(Path(work, "home"))
        settings = Settings(home=home)
        files = Path(work, "files")
        files.mkdir()
        found = pack(session("pack", settings), settings, args.number, files)
    archive = archive_of(args.number)
    print(
        f"{archive}: {len(found['tables'])} tables, {len(found['views'])} views, {archive.stat().st_size} bytes"
    )


def run_demo(home: Path) -> Path:
    """Run `make demo` with few messages; return its folder."""
    environment = os.environ | {
        "TRACE_HOME": str(home),
        "TRACE_ALERTS__RUNBOOK_BASE_URL": "https://runbooks.example",
    }
    command = [sys.executable, "-m", "sandbox.demo", "--messages", "20"]
    subprocess.run(command, cwd=PROJECT, env=environment, check=True)
    return home


if __name__ == "__main__":
    main()
