"""Run checks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from spark_jobs.checks import results
from spark_jobs.checks.check import Check, Evaluation, Measured, Run, could_not_be_made, judge, threshold
from spark_jobs.process import jvm

log = logging.getLogger(__name__)


def evaluate(checks: Iterable[Check], run: Run) -> list[Evaluation]:
    """Run each check; a check that raises fails alone."""
    found = []
    for check in checks:
        try:
            judged = judge(check, _given_time(check, run), run.settings)
            if check.of_new_messages and run.compared_from is not None:
                judged = replace(judged, complete=False, partial=True)
            found.append(judged)
        except Exception as error:  # of any kind: the other checks still run
            jvm.raise_if_died()  # the JVM has died, so no check can run; nothing is known to be wrong with the data
            log.exception("check %s could not be made", check.name)
            found.append(could_not_be_made(check, error, run.settings))
    return found


def _given_time(check: Check, run: Run) -> Iterator[Measured]:
    """The measurements. What has never happened is unknown at first: a cluster that was just added is no failure."""
    for each in check.measure(run):
        if each.verdict == "never":
            limit = timedelta(minutes=threshold(check, each.entity, run.settings))
            seen = results.first_evaluated_at(run.settings, check.name, each.entity)
            if run.now - (seen or run.now) <= limit:
                each = replace(each, verdict="unknown")
        yield each


def refusing(evaluations: Iterable[Evaluation]) -> list[str]:
    """The failures of integrity checks, which prevent a publication, one line each."""
    return [
        f"{each.check.name}{f' {result.entity}' if result.entity else ''}: {result.detail}"
        for each in evaluations
        if each.check.kind == "integrity"
        for result in each.failures
    ]
