"""Job: move an embedded lake to another `TRACE_HOME`, while no other job runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console

from spark_jobs.backup.folder import BackupError
from spark_jobs.backup.move import move, require_elsewhere
from spark_jobs.backup.progress import progress_of
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.jobs.serve import serve
from spark_jobs.process.file_lock import LockedError, locked
from spark_jobs.process.home import LOCK
from spark_jobs.settings import Settings

_console = Console(stderr=True, width=140, highlight=False)


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the new TRACE_HOME; it has no lake")
    args = parser.parse_args(argv)
    settings, to, started = Settings(), args.to.absolute(), time.monotonic()
    require_elsewhere(settings, to)
    try:
        with (
            locked(settings.home / LOCK, "make move"),
            locked(to / LOCK, "make move"),
            progress_of("copying and reading") as progress,
        ):
            files = move(settings, to, progress)
    except LockedError as error:
        raise BackupError(f"{error}: end that first (`make down` ends `make up`)") from None
    serve(settings.model_copy(update={"home": to}))  # if it fails, the next publication builds the file
    _console.print(
        f"moved {files} files from {settings.home} to {to} in {time.monotonic() - started:.0f} s. Set TRACE_HOME={to}, and "
        f"delete {settings.home} when you have seen that all is well",
        soft_wrap=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
