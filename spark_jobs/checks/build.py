"""Checks of a build of the marts, before it is published: dbt's tests, and what became of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from spark_jobs.catalog import lake
from spark_jobs.checks.check import Measured, Run

# Facts only gain rows, unless history is taken away on purpose.
FACTS = ("marts.fct_sends", "marts.fct_consume_attempts", "marts.fct_messages")
# Where what takes history away is booked, and which entries do.
_BOOKS: dict[str, str | None] = {
    "ops.retention": "table_name == 'events.trace_records' and dropped_at >= '{since}'",
    "ops.erasures": None,
    "ops.replaced_records": None,
}


def dbt_tests(run: Run) -> Iterator[Measured]:
    """Per test that stops a publication: rows that fail it; per model that could not be built: 1."""
    assert run.build is not None
    if run.build.error:
        raise RuntimeError(run.build.error)
    for node in run.build.nodes:
        text = " ".join(node.message.split())[:300]
        if node.status == "skipped":
            yield Measured(node.name, None, "skipped, as something before it failed", "unknown")
        elif node.failed:
            yield Measured(node.name, node.failures or 1, text)
        elif node.kind == "test" and node.status != "warn":
            yield Measured(node.name, 0, "passed")


def dbt_warnings(run: Run) -> Iterator[Measured]:
    """Per test that only warns, and does: rows that fail it. Unknown layouts have a check of their own."""
    assert run.build is not None
    for node in run.build.nodes:
        if node.status == "warn" and node.name != "unknown_layouts":
            yield Measured(node.name, node.failures or 1, " ".join(node.message.split())[:300])
        elif node.status == "skipped" and node.kind == "test":
            yield Measured(node.name, None, "skipped, as something before it failed", "unknown")


def row_count_drop(run: Run) -> Iterator[Measured]:
    """Per fact: the share of its rows that the new build lacks."""
    catalog = lake(run.settings)
    for name in FACTS:
        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            continue
        before, after = _head(table, "main"), _head(table, str(run.branch))
        if before is None:
            continue
        if after is None:
            yield Measured(name, None, f"branch {run.branch} is not there", "unknown")
            continue
        old, new = _rows(before), _rows(after)
        text = f"{old} rows are published, {new} were built"
        if new < old and (book := _taken_away_since(run, before.timestamp_ms)):
            yield Measured(
                name, 1 - new / old, f"{text}; history was taken away on purpose: see lake.{book}", "pass"
            )
        else:
            yield Measured(name, max(0.0, 1 - new / old) if old else 0.0, text)


def _head(table: Table, branch: str) -> Snapshot | None:
    ref = table.metadata.refs.get(branch)
    return table.snapshot_by_id(ref.snapshot_id) if ref else None


def _rows(snapshot: Snapshot) -> int:
    return int(snapshot.summary.get("total-records") or 0) if snapshot.summary else 0


def _taken_away_since(run: Run, ms: int) -> str | None:
    """The book that gained an entry since then; compaction of a book is none."""
    catalog, since = lake(run.settings), datetime.fromtimestamp(ms / 1000, UTC).isoformat()
    for name, which in _BOOKS.items():
        if not catalog.table_exists(name):
            continue
        book = catalog.load_table(name)
        changed = any(
            each.timestamp_ms > ms and each.summary and each.summary.operation != Operation.REPLACE
            for each in book.snapshots()
        )
        if changed and (which is None or book.scan(which.format(since=since), limit=1).to_arrow().num_rows):
            return name
    return None
