"""A round: make checks, book the results, bring the alerts up to date, tell people."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from spark_jobs.alerts import book, windows
from spark_jobs.alerts.tell import Told, tell
from spark_jobs.checks import evaluate, report
from spark_jobs.checks.check import Check, Evaluation, Run


def make(checks: Iterable[Check], run: Run, run_id: str) -> tuple[list[Evaluation], Told]:
    """Make the checks; returns what they found, and what people were told or could not be.

    A check that cannot be made, and a sink that cannot be told, stop nothing.

    Raises:
        Exception: the results or the alerts could not be booked.
    """
    found = evaluate.evaluate(checks, run)
    report.evaluated(found)
    evaluate.book(run.settings, found, run_id, run.now)
    settings = windows.with_those_of_jobs(run.settings, run.now)
    return found, tell(partial(book.change, settings), found, settings, run.now)
