"""Builds without new records: which clusters they were due for, and the rows of their marts before and after."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.lake import tables, without_rows
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, committed, to_json, watermarks
from spark_jobs.mart_build import branches, due
from spark_jobs.settings import Settings

# Cluster to the rows of all marts, as text: table and row.
RowsByCluster = dict[str, Counter[tuple[str, str]]]


@dataclass(frozen=True)
class Idle:
    """A build without new records.

    Attributes:
        why: cluster to why the build was due; it was not for the others.
        before: the rows of the marts before it.
        after: the rows after it.
    """

    why: dict[str, str]
    before: RowsByCluster
    after: RowsByCluster

    @property
    def changed(self) -> set[str]:
        """The clusters with other rows than before."""
        return {
            cluster
            for cluster in self.before | self.after
            if self.before.get(cluster) != self.after.get(cluster)
        }


def builds(
    catalog: Catalog, settings: Settings, minutes: list[int], build: Callable[[], object]
) -> Iterator[Idle]:
    """Builds so many minutes after the watermark of now, each compared with the one before."""
    begin = committed(settings, tables.EVENTS)
    assert begin is not None
    (mark,) = {
        datetime.fromtimestamp(ms / 1000, UTC)
        for cluster, ms in watermarks(begin.positions).items()
        if cluster.startswith("h")
    }
    rows, before_mark = _rows(catalog), mark
    for later in minutes:
        _ask_again(catalog, mark + timedelta(minutes=later - 1), before_mark)
        before_mark = mark + timedelta(minutes=later)
        _advance(settings, before_mark)
        last = [
            due.LastBuild(**row) for row in catalog.load_table(due.NEXT_BUILDS).scan().to_arrow().to_pylist()
        ]
        marks = {each.cluster: before_mark for each in last}
        why = due.by_cluster(catalog, settings, last, marks)
        build()
        before, rows = rows, _rows(catalog)
        yield Idle(why, before, rows)


def _ask_again(catalog: Catalog, at: datetime, watermark: datetime) -> None:
    """Another collection of each cluster that was asked before: the brokers answer the same."""
    table = catalog.load_table(tables.OBSERVATIONS.name)
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["observed_at"]):
        newest[row["cluster"], row["broker"]] = row
    again = [row | {"observed_at": at, "watermark": watermark} for row in newest.values()]
    table.append(
        pa.Table.from_pylist(again, schema=schema_to_pyarrow(table.schema(), include_field_ids=False))
    )


def _advance(settings: Settings, mark: datetime) -> None:
    """Move all watermarks of events without a record, as `advance_ingest` does."""
    events = committed(settings, tables.EVENTS)
    assert events is not None
    complete = {
        queue: replace(position, complete_to=int(mark.timestamp() * 1000))
        for queue, position in events.positions.items()
    }
    properties = {OFFSETS: to_json(complete), CHANGE_SEQ: str(events.change_seq)}
    assert without_rows.commit(settings, tables.EVENTS.name, events.head, properties)


def _rows(catalog: Catalog) -> RowsByCluster:
    found: RowsByCluster = defaultdict(Counter)
    for table in branches.audited_tables(catalog):
        if table.startswith("marts."):
            for row in catalog.load_table(table).scan().to_arrow().to_pylist():
                found[row["cluster"]][table, str(row)] += 1
    return dict(found)
