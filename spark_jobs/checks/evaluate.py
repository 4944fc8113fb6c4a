"""Make checks, and book what came of them in `lake.ops.check_results`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.catalog import committing, lake
from spark_jobs.checks.check import Check, Evaluation, Run, could_not_be_made, judge
from spark_jobs.settings import Settings
from spark_jobs.tables import CHECK_RESULTS

log = logging.getLogger(__name__)


def evaluate(checks: Iterable[Check], run: Run) -> list[Evaluation]:
    """Make each check; one that raises fails alone."""
    found = []
    for check in checks:
        try:
            found.append(judge(check, check.measure(run), run.settings))
        except Exception as error:  # whatever it is: the others say something still
            log.exception("check %s could not be made", check.name)
            found.append(could_not_be_made(check, error, run.settings))
    return found


def refusing(evaluations: Iterable[Evaluation]) -> list[str]:
    """What forbids a publication, a line each: the failures of integrity checks."""
    return [
        f"{each.check.name}{f' {result.entity}' if result.entity else ''}: {result.detail}"
        for each in evaluations
        if each.check.kind == "integrity"
        for result in each.failures
    ]


def runbook(check: Check, settings: Settings) -> str:
    return f"{settings.alerts.runbook_base_url.rstrip('/')}/{check.name}.md"


def book(settings: Settings, evaluations: Iterable[Evaluation], run_id: str, now: datetime) -> None:
    """Append a row a result, on main, in one commit."""
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
    for attempt in committing():
        with attempt:
            table = lake(settings).load_table(CHECK_RESULTS.name)
            schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            table.append(pa.Table.from_pylist(rows, schema=schema))
