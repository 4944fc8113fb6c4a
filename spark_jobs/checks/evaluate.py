"""Run checks and save their results in `lake.ops.check_results`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.checks.check import (
    Check,
    Evaluation,
    Measured,
    Run,
    could_not_be_made,
    judge,
    runbook,
    threshold,
)
from spark_jobs.lake.catalog import lake, retry_commit
from spark_jobs.lake.tables import CHECK_RESULTS
from spark_jobs.process import jvm
from spark_jobs.settings import Settings

log = logging.getLogger(__name__)


def evaluate(checks: Iterable[Check], run: Run) -> list[Evaluation]:
    """Run each check; a check that raises fails alone."""
    found = []
    for check in checks:
        try:
            found.append(judge(check, _given_time(check, run), run.settings))
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
            if run.now - _first_look(check, each.entity, run) <= limit:
                each = replace(each, verdict="unknown")
        yield each


def _first_look(check: Check, entity: str | None, run: Run) -> datetime:
    """The time of the oldest saved result of the entity, or now."""
    try:
        table = lake(run.settings).load_table(CHECK_RESULTS.name)
    except NoSuchTableError:
        return run.now
    rows = table.scan(f"check == '{check.name}'", selected_fields=("entity", "evaluated_at")).to_arrow()
    return min([row["evaluated_at"] for row in rows.to_pylist() if row["entity"] == entity] + [run.now])


def refusing(evaluations: Iterable[Evaluation]) -> list[str]:
    """The failures of integrity checks, which prevent a publication, one line each."""
    return [
        f"{each.check.name}{f' {result.entity}' if result.entity else ''}: {result.detail}"
        for each in evaluations
        if each.check.kind == "integrity"
        for result in each.failures
    ]


def save_results(settings: Settings, evaluations: Iterable[Evaluation], run_id: str, now: datetime) -> None:
    """Append one row per result to main, in one commit."""
    rows = [
        {
            "check": each.check.name,
            "table": each.check.table,
            "partition": result.partition,
            "entity": result.entity,
            "class": each.check.kind,
            "severity": each.severity,
            "value": None if result.value is None else float(result.value),
            "threshold": result.threshold,
            "passed": result.passed,
            "detail": result.detail,
            "owner": settings.alerts.owner,
            "runbook": runbook(each.check, settings),
            "run": run_id,
            "evaluated_at": now,
        }
        for each in evaluations
        for result in each.results
    ]
    for attempt in retry_commit():
        with attempt:
            table = lake(settings).load_table(CHECK_RESULTS.name)
            schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            table.append(pa.Table.from_pylist(rows, schema=schema))
