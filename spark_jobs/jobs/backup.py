"""Job: back up an embedded lake and the state of its home, while other jobs run."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from spark_jobs.backup import folder, make
from spark_jobs.backup.progress import progress_of
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.process.file_lock import LockedError, locked
from spark_jobs.settings import Settings

_console = Console(stderr=True, width=140, highlight=False)


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the folder of backups")
    parser.add_argument("--keep", type=int, help="remove all but so many of the newest backups")
    args = parser.parse_args(argv)
    if args.keep is not None and args.keep < 1:
        parser.error("--keep is at least 1")
    settings, root, started = Settings(), args.to.absolute(), time.monotonic()
    make.require_folder(settings, root)
    try:
        with locked(root / folder.LOCK, "make backup"), progress_of("copying and reading") as progress:
            target, made = make.make(settings, root, progress)
            removed = make.remove_old(root, args.keep) if args.keep else 0
    except LockedError as error:
        raise folder.BackupError(f"{error}: wait until that backup has ended") from None
    shown = Table("table", "records", title="backed up", title_justify="left")
    for name, rows in made.tables.items():
        if rows:
            shown.add_row(name, f"{rows:,}")
    _console.print(shown)
    _console.print(
        f"{target}: {len(made.tables)} tables and views, {len(made.files)} files of tables and {len(made.state)} others, "
        f"{made.bytes / 1e6:,.1f} MB, all read and verified, in {time.monotonic() - started:.0f} s; "
        f"{removed} old backups were removed",
        soft_wrap=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
