"""Run checks, save their results, update the alerts, notify."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from spark_jobs.alerts import resend, silences, store
from spark_jobs.alerts.notify import NotifyResult, StateNotSavedError, notify, utc_now
from spark_jobs.checks import evaluate, report, results
from spark_jobs.checks.check import Check, Evaluation, Run
from spark_jobs.lake.offsets import Positions
from spark_jobs.settings import Settings


def evaluate_and_notify(
    checks: Iterable[Check], run: Run, run_id: str
) -> tuple[list[Evaluation], NotifyResult]:
    """Run the checks; return the evaluations and the result of the notifications.

    A check that raises and a sink that fails do not stop the others.

    Raises:
        StateNotSavedError: the results or the alerts could not be saved; notifications were sent nevertheless.
        Exception: the alerts could not be read.
    """
    with resend.resent_meanwhile(run.settings):
        found = evaluate.evaluate(checks, run)
    report.evaluated(found)
    return found, notify_about(found, run.settings, run_id, run.now)


def notify_about(found: Sequence[Evaluation], settings: Settings, run_id: str, now: datetime) -> NotifyResult:
    """Save evaluations and notify, even if they cannot be saved; raises like `evaluate_and_notify`."""
    unsaved: StateNotSavedError | None = None
    try:
        results.save(settings, found, run_id, now)
    except Exception as error:
        unsaved = StateNotSavedError("the check results could not be saved", error)
    settings = silences.with_job_windows(settings, now)
    result = notify(partial(store.change, settings), found, settings, now)
    resend.save(settings, result.standing, utc_now())
    if unsaved:
        raise unsaved
    return result


def compared_from(
    settings: Settings, checks: Iterable[Check], positions: Positions | None
) -> Positions | None:
    """The `Run.compared_from` of checks that passed up to these offsets.

    It is None, for all recent messages, if the offsets are not known or one of the checks has an open alert: then the messages
    that it is about are compared again, so that it can be resolved.
    """
    names = {each.name for each in checks if each.of_new_messages}
    is_open = any(each.is_open and each.check in names for each in store.read(settings))
    return None if is_open else positions
