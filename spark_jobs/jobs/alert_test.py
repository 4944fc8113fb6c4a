"""Job: send a test alert of each route to its sinks, and print who accepted it; without Spark. Nothing is stored."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spark_jobs.alerts import trial
from spark_jobs.alerts.sinks.alertmanager import KEPT_INTERVALS
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.settings import Settings
from spark_jobs.settings_error import SettingsError

_console = Console(width=140, highlight=False)


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument("--route", action="append", help="repeatable; by default all routes")
    args = parser.parse_args(argv)
    settings = Settings()
    try:
        known = trial.routes(settings.alerts)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    if unknown := sorted(set(args.route or ()) - set(known)):
        raise SettingsError(f"there is no route {', '.join(unknown)}: the routes are {', '.join(known)}")
    found = trial.send(settings, args.route or known, datetime.now(UTC))
    shown = Table("route", "sink", "result")
    for each in found:
        result = (
            "accepted"
            if each.is_accepted
            else f"[bold red]failed[/]: {escape(each.error or 'no sink takes this route')}"
        )
        shown.add_row(escape(each.route), each.sink or "-", result)
    _console.print(shown)
    if any(each.is_accepted for each in found):
        _console.print(
            "Look whether they have arrived. Alertmanager resolves its alerts after "
            f"{KEPT_INTERVALS * settings.alerts.interval_seconds} s; other sinks are sent no resolution"
        )
    if lacking := [each.route for each in found if each.sink is None]:
        _console.print(
            f"alerts of {', '.join(lacking)} reach nobody: set alerts.alertmanager, or alerts.apprise.{lacking[0]}",
            soft_wrap=True,
        )
    return 0 if all(each.is_accepted for each in found) else 1


if __name__ == "__main__":
    sys.exit(run_job(main))
