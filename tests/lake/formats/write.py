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
    number = parser.parse_args().number
    with tempfile.TemporaryDirectory() as work:
        home = Path(work, "home")
        environment = os.environ | {
            "TRACE_HOME": str(home),
            "TRACE_ALERTS__RUNBOOK_BASE_URL": "https://runbooks.example",
        }
        subprocess.run(
            [sys.executable, "-m", "sandbox.demo", "--messages", "20"],
            cwd=PROJECT,
            env=environment,
            check=True,
        )
        settings = Settings(home=home)
        files = Path(work, "files")
        files.mkdir()
        found = pack(session("pack", settings), settings, number, files)
    size = archive_of(number).stat().st_size
    print(f"{archive_of(number)}: {len(found['tables'])} tables, {len(found['views'])} views, {size} bytes")


if __name__ == "__main__":
    main()
