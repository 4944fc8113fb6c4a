"""Checks of a build of the marts before it is published: dbt's tests, and lost rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from spark_jobs.checks.check import Measured, Run, check
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import RECORD_KEY
from spark_jobs.mart_build.inputs import CHANGE_SEQ_TO

# Facts only gain rows, unless history is removed on purpose.
_gate = partial(check, "marts", kind="integrity", stage="gate")
FACTS = ("marts.fct_sends", "marts.fct_consume_attempts", "marts.fct_messages")


@_gate("the marts are not published: dbt found {value} failure(s) in {entity}")
def dbt_tests(run: Run) -> Iterator[Measured]:
    """A model could not be built, or a test with severity `error` fails.

    Measured per test: failing rows; per model that could not be built: 1.
    """
    assert run.build is not None
    if run.build.error:
        raise RuntimeError(run.build.error)
    for node in run.build.nodes:
        text = " ".join(node.message.split())[:300]
        if node.status == "skipped":
            yield Measured(node.name, None, "skipped, because an upstream node failed", "unknown")
        elif node.failed:
            yield Measured(node.name, node.failures or 1, text)
        elif node.kind == "test" and node.status != "warn":
            yield Measured(node.name, 0, "passed")


history_tests = replace(
    dbt_tests,
    name="history_tests",
    stage="history",
    definition="A test of the published marts fails on any of their rows.",
    title="{value} published row(s) fail the dbt test {entity}",
)


@_gate("dbt warns of {value} row(s) in {entity}", kind="messaging", severity="warning")
def dbt_warnings(run: Run) -> Iterator[Measured]:
    """A test with severity `warn` fails.

    Measured per test: failing rows. Unknown layouts have a check of their own.
    """
    assert run.build is not None
    for node in run.build.nodes:
        if node.status == "warn" and node.name != "unknown_layouts":
            yield Measured(node.name, node.failures or 1, " ".join(node.message.split())[:300])
        elif node.status == "skipped" and node.kind == "test":
            yield Measured(node.name, None, "skipped, because an upstream node failed", "unknown")


@_gate(
    "the marts are not published: {entity} was built with {value} of its rows gone",
    limit="row_count_drop",
    unit="share",
)
def row_count_drop(run: Run) -> Iterator[Measured]:
    """A build of a fact has fewer rows than the published one, and more rows are gone than were removed on purpose.

    Measured per fact: the share of its rows that is gone, without those that were removed on purpose since the publication.
    """
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
            yield Measured(name, None, f"branch {run.branch} does not exist", "unknown")
            continue
        old, new = _rows(before), _rows(after)
        text, excused = f"{old} rows are published, {new} were built", 0
        if new < old:
            for ops_table, count in _removed_since(catalog, before).items():
                text += f"; {count} records were removed on purpose, see lake.{ops_table}"
                excused += count
        yield Measured(name, max(0.0, (old - new - excused) / old) if old else 0.0, text)


def _head(table: Table, branch: str) -> Snapshot | None:
    ref = table.metadata.refs.get(branch)
    return table.snapshot_by_id(ref.snapshot_id) if ref else None


def _rows(snapshot: Snapshot) -> int:
    return int(snapshot.summary.get("total-records") or 0) if snapshot.summary else 0


def _removed_since(catalog: Catalog, published: Snapshot) -> dict[str, int]:
    """Per table of `lake.ops`, the number of records that were removed from events since a fact was published.

    A record gives at most one row of a fact, except a batch, whose ids are counted if the table has them.
    """
    ms, summary = published.timestamp_ms, published.summary
    since = datetime.fromtimestamp(ms / 1000, UTC).isoformat()
    change_seq = int((summary.get(CHANGE_SEQ_TO) if summary else None) or 0)
    committed = {
        "ops.erasures": (f"completed_at is null or completed_at >= '{since}'", _sum("records")),
        "ops.replaced_records": (f"change_seq > {change_seq}", _ids),
    }
    found = {}
    for name, (which, count) in committed.items():
        if catalog.table_exists(name) and _has_changed(ops_table := catalog.load_table(name), ms):
            found[name] = count(ops_table.scan(which).to_arrow())
    return {name: count for name, count in found.items() if count}


def _has_changed(ops_table: Table, since_ms: int) -> bool:
    """Whether rows were added since; a compaction does not count."""
    return any(
        each.timestamp_ms > since_ms and each.summary and each.summary.operation != Operation.REPLACE
        for each in ops_table.snapshots()
    )


def _sum(column: str) -> Callable[[pa.Table], int]:
    return lambda rows: pc.sum(rows[column]).as_py() or 0


def _ids(replaced: pa.Table) -> int:
    """The ids of the records, each counted once: a replay that failed and was retried has recorded them twice."""
    of_place = replaced.group_by(RECORD_KEY).aggregate([("msg_id", "max")])
    commas = pc.count_substring(of_place["msg_id_max"], ",")
    return of_place.num_rows + (pc.sum(commas).as_py() or 0)
