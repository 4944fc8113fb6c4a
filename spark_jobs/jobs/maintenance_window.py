"""Job: begin, list or end maintenance windows, without Spark. What opens in one is sent at its end, if it is open then."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime, timedelta

from pyiceberg.exceptions import NoSuchTableError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spark_jobs.alerts import silences
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.settings import Settings

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
LONGEST = timedelta(days=30)
_console = Console(width=140, highlight=False)


def duration(text: str) -> timedelta:
    """`90m`, `2h` or `3d`.

    Raises:
        argparse.ArgumentTypeError: it is none of these, or too long.
    """
    found = re.fullmatch(r"(\d{1,5})([mhd])", text)
    span = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta()
    if not timedelta() < span <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r}: give 90m, 2h or 3d, at most {LONGEST.days}d")
    return span


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--for", dest="span", type=duration, help="begin a window of 90m, 2h or 3d")
    doing.add_argument("--end", metavar="WINDOW", help="end the window whose id begins so")
    parser.add_argument(
        "--match",
        default="*",
        help="pattern (*, ?) of the identities, such as prod:*:lag*; by default all alerts",
    )
    args = parser.parse_args(argv)
    settings, now = Settings(), datetime.now(UTC)
    try:
        if args.span:
            window = silences.begin(settings, args.match, now + args.span, args.run_id)
            _console.print(
                f"alerts {escape(args.match)} are silenced until {window.ends_at:%F %T} UTC", soft_wrap=True
            )
        elif args.end:
            for window in _of(silences.windows(settings, now), args.end, parser):
                silences.end(settings, window, now)
                _console.print(
                    f"ended: alerts {escape(window.match)}, which are sent now if they are open",
                    soft_wrap=True,
                )
        show(silences.windows(settings, datetime.now(UTC)), settings)
    except NoSuchTableError:
        parser.error("there is no lake yet: start trace_ingest, or use alerts.maintenance in the settings")
    return 0


def _of(found: list[silences.Window], prefix: str, parser: argparse.ArgumentParser) -> list[silences.Window]:
    matching = [window for window in found if window.window_id.startswith(prefix)]
    if len({window.window_id for window in matching}) != 1:
        parser.error(f"{len(matching)} windows that are not over have an id that begins with {prefix}")
    if len(matching) > 1:
        parser.error(f"window {prefix} is that of a job, which ends it")
    return matching


def show(found: list[silences.Window], settings: Settings) -> None:
    """Print the windows that are not over, also those of the settings."""
    shown = Table("window", "alerts", "from (UTC)", "to (UTC)", "run")
    for window in found:
        shown.add_row(
            *(
                window.window_id[:8],
                escape(window.match),
                f"{window.starts_at:%F %T}",
                f"{window.ends_at:%F %T}",
            ),
            escape(window.run_id),
        )
    now = datetime.now(UTC)
    for each in settings.alerts.maintenance:
        if each.end > now:
            start, end = (time.astimezone(UTC) for time in (each.start, each.end))
            shown.add_row("settings", escape(each.match), f"{start:%F %T}", f"{end:%F %T}", "")
    if shown.row_count:
        _console.print(shown)
    else:
        _console.print("there are no maintenance windows")


if __name__ == "__main__":
    sys.exit(run_job(main))
