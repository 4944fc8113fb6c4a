"""The results of checks, `lake.ops.check_results`: what changed, and a summary of each day, not every evaluation.

A row stands for the evaluations of a check for an entity on one day (UTC) that had the same verdict, limit and severity one after
the other. So a verdict that changes begins a new row, and each day has at least one row per check and entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.checks.check import Evaluation, runbook
from spark_jobs.lake.catalog import lake, retry_commit
from spark_jobs.lake.tables import CHECK_RESULTS
from spark_jobs.settings import Settings

Rows = list[dict[str, Any]]
_KEY = ("check", "entity")
_SAME = ("passed", "threshold", "severity", "table", "class")


def save(settings: Settings, evaluations: Iterable[Evaluation], run_id: str, now: datetime) -> None:
    """Add the results to the rows of the day, in one commit to main; repeated after a conflict with another writer."""
    found = rows_of(evaluations, settings, run_id, now)
    if not found:
        return
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for attempt in retry_commit():
        with attempt:
            table = lake(settings).load_table(CHECK_RESULTS.name)
            before = table.scan(_on(day)).to_arrow().to_pylist()
            schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            after = pa.Table.from_pylist(added(before, found), schema=schema)
            if before:
                table.overwrite(after, overwrite_filter=_on(day))
            else:
                table.append(after)


def rows_of(evaluations: Iterable[Evaluation], settings: Settings, run_id: str, now: datetime) -> Rows:
    """One row per result."""
    found = []
    for each in evaluations:
        for result in each.results:
            value = None if result.value is None else float(result.value)
            found.append(
                {
                    "check": each.check.name,
                    "table": each.check.table,
                    "partition": result.partition,
                    "entity": result.entity,
                    "class": each.check.kind,
                    "severity": each.severity,
                    "value": value,
                    "least_value": value,
                    "largest_value": value,
                    "threshold": result.threshold,
                    "passed": result.passed,
                    "detail": result.detail,
                    "owner": settings.alerts.owner,
                    "runbook": runbook(each.check, settings),
                    "run": run_id,
                    "evaluations": 1,
                    "first_evaluated_at": now,
                    "evaluated_at": now,
                }
            )
    return found


def added(before: Sequence[dict[str, Any]], new: Rows) -> Rows:
    """The rows of a day after these results; the newest row of a check and entity goes on if the verdict is the same.

    A row of an earlier version, which counts no evaluations, does not go on.
    """
    rows = sorted(before, key=lambda row: row["evaluated_at"])
    newest = {tuple(row[name] for name in _KEY): n for n, row in enumerate(rows)}
    for row in new:
        key = tuple(row[name] for name in _KEY)
        known = rows[newest[key]] if key in newest else None
        if known and known.get("evaluations") and all(known[name] == row[name] for name in _SAME):
            rows[newest[key]] = _together(known, row)
        else:
            newest[key] = len(rows)
            rows.append(row)
    return rows


def first_evaluated_at(settings: Settings, check: str, entity: str | None) -> datetime | None:
    """The time of the oldest saved result of a check for an entity; None if there is none."""
    try:
        table = lake(settings).load_table(CHECK_RESULTS.name)
    except NoSuchTableError:
        return None
    rows = table.scan(f"check == '{check}'").to_arrow().to_pylist()
    # Rows of an earlier version have the time of their evaluation only.
    times = [row.get("first_evaluated_at") or row["evaluated_at"] for row in rows if row["entity"] == entity]
    return min(times, default=None)


def _together(known: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    values = [
        each for each in (known["least_value"], known["largest_value"], row["value"]) if each is not None
    ]
    return row | {
        "least_value": min(values, default=None),
        "largest_value": max(values, default=None),
        "evaluations": known["evaluations"] + 1,
        "first_evaluated_at": min(known["first_evaluated_at"], row["first_evaluated_at"]),
        "evaluated_at": max(known["evaluated_at"], row["evaluated_at"]),
    }


def _on(day: datetime) -> str:
    """The rows of a day, which are one partition of the table."""
    end = day + timedelta(days=1)
    return f"evaluated_at >= '{day.isoformat()}' and evaluated_at < '{end.isoformat()}'"
