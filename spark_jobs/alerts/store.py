"""The store of alerts, `lake.ops.alerts`: read and written as a whole, by one writer at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.alerts.alert import Alert
from spark_jobs.lake.catalog import lake, retry_commit
from spark_jobs.lake.tables import ALERTS
from spark_jobs.settings import Settings

_TUPLES = ("opened_sent_to", "resolved_sent_to")


def read(settings: Settings) -> list[Alert]:
    """All alerts, open and resolved, in the order in which they opened."""
    return _of(lake(settings).load_table(ALERTS.name).scan().to_arrow())


def change(settings: Settings, to: Callable[[list[Alert]], list[Alert]]) -> list[Alert]:
    """Change the alerts with `to` and return them. After a conflict with another writer `to` is called again.

    The commit is a compare-and-set on the snapshot that was read. Nothing is written if nothing changed.

    Raises:
        CommitFailedException: ten attempts conflicted with other writers.
    """
    for attempt in retry_commit():
        with attempt:
            table = lake(settings).load_table(ALERTS.name)
            before = _of(table.scan().to_arrow())
            after = to(before)
            if after != before:
                schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
                table.overwrite(pa.Table.from_pylist([_row(alert) for alert in after], schema=schema))
    return after


def _of(rows: pa.Table) -> list[Alert]:
    found = []
    for row in rows.to_pylist():
        row["kind"] = row.pop("class")
        found.append(Alert(**row | {name: tuple(row[name] or ()) for name in _TUPLES}))
    return sorted(found, key=lambda alert: (alert.first_failed_at, alert.identity))


def _row(alert: Alert) -> dict[str, object]:
    row = asdict(alert)
    row["class"] = row.pop("kind")
    return row
