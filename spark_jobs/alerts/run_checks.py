"""A round: make checks, book the results, bring the alerts up to date, tell people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from spark_jobs.alerts import resend, silences, store
from spark_jobs.alerts.notify import NotKept, Told, tell, utc_now
from spark_jobs.checks import evaluate, report
from spark_jobs.checks.check import Check, Evaluation, Run
from spark_jobs.settings import Settings


def make(checks: Iterable[Check], run: Run, run_id: str) -> tuple[list[Evaluation], Told]:
    """Make the checks; returns what they found, and what people were told or could not be.

    A check that cannot be made, and a sink that cannot be told, stop nothing.

    Raises:
        NotKept: the results or the alerts could not be booked; people were told all the same.
        Exception: the alerts could not be read.
    """
    with resend.kept_alive(run.settings):
        found = evaluate.evaluate(checks, run)
    report.evaluated(found)
    return found, tell_of(found, run.settings, run_id, run.now)


def tell_of(found: Sequence[Evaluation], settings: Settings, run_id: str, now: datetime) -> Told:
    """Book what checks found, and tell people, also where it cannot be booked; raises as `make` does."""
    unkept: NotKept | None = None
    try:
        evaluate.book(settings, found, run_id, now)
    except Exception as error:
        unkept = NotKept("the results could not be booked", error)
    settings = silences.with_those_of_jobs(settings, now)
    told = tell(partial(store.change, settings), found, settings, now)
    resend.save(settings, told.standing, utc_now())
    if unkept:
        raise unkept
    return told
