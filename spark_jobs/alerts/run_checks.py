"""A round: make checks, book the results, bring the alerts up to date, tell people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from spark_jobs.alerts import resend, silences, store
from spark_jobs.alerts.notify import NotifyResult, StateNotSavedError, notify, utc_now
from spark_jobs.checks import evaluate, report
from spark_jobs.checks.check import Check, Evaluation, Run
from spark_jobs.settings import Settings


def evaluate_and_notify(
    checks: Iterable[Check], run: Run, run_id: str
) -> tuple[list[Evaluation], NotifyResult]:
    """Make the checks; returns what they found, and what people were told or could not be.

    A check that cannot be made, and a sink that cannot be told, stop nothing.

    Raises:
        StateNotSavedError: the results or the alerts could not be booked; people were told all the same.
        Exception: the alerts could not be read.
    """
    with resend.resent_meanwhile(run.settings):
        found = evaluate.evaluate(checks, run)
    report.evaluated(found)
    return found, notify_about(found, run.settings, run_id, run.now)


def notify_about(found: Sequence[Evaluation], settings: Settings, run_id: str, now: datetime) -> NotifyResult:
    """Book what checks found, and tell people, also where it cannot be booked; raises as `make` does."""
    unkept: StateNotSavedError | None = None
    try:
        evaluate.save_results(settings, found, run_id, now)
    except Exception as error:
        unkept = StateNotSavedError("the results could not be booked", error)
    settings = silences.with_job_windows(settings, now)
    result = notify(partial(store.change, settings), found, settings, now)
    resend.save(settings, result.standing, utc_now())
    if unkept:
        raise unkept
    return result
