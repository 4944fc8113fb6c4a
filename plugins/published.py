"""The snapshots that a DAG run has published, and the open alerts, read with pyiceberg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import RUN_ID
from spark_jobs.settings import Settings

NAMESPACES = ("raw", "events", "marts")
ALERTS = "ops.alerts"


@dataclass(frozen=True)
class Published:
    """A snapshot on a table's main branch.

    Attributes:
        table: `lake.<namespace>.<name>`.
        snapshot_id: Iceberg's.
        committed_at: UTC.
        operation: append, overwrite, …
        added: rows that the commit added; None if unknown.
        total: rows of the table after it.
        properties: those that the jobs write, `trace.…`.
    """

    table: str
    snapshot_id: int
    committed_at: datetime
    operation: str
    added: int | None
    total: int | None
    properties: dict[str, str]


def published(settings: Settings, run_id: str) -> list[Published]:
    """The snapshots that a run (`<dag id>/<run id>`) has put on main, in the order of their commits."""
    catalog = lake(settings)
    found = [
        _published(table, snapshot)
        for table in _tables(catalog)
        for snapshot in _on_main(catalog, table)
        if snapshot.summary and snapshot.summary.additional_properties.get(RUN_ID) == run_id
    ]
    return sorted(found, key=lambda each: each.committed_at)


def open_alerts(settings: Settings) -> list[dict[str, Any]] | None:
    """The alerts that are not resolved, one dict of all columns each; None if the table of alerts does not exist yet."""
    try:
        table = lake(settings).load_table(ALERTS)
    except NoSuchTableError:
        return None
    return table.scan("state != 'resolved'").to_arrow().to_pylist()


def _tables(catalog: Catalog) -> list[str]:
    existing = {namespace[0] for namespace in catalog.list_namespaces()}
    found = (sorted(catalog.list_tables(namespace)) for namespace in NAMESPACES if namespace in existing)
    return [".".join(table) for tables in found for table in tables]


def _on_main(catalog: Catalog, table: str) -> Iterator[Snapshot]:
    """Main's head and its ancestors, newest first; none for a view, which the catalog lists too."""
    with suppress(NoSuchTableError):
        metadata = catalog.load_table(table).metadata
        yield from ancestors_of(metadata.current_snapshot(), metadata)


def _published(table: str, snapshot: Snapshot) -> Published:
    properties = snapshot.summary.additional_properties if snapshot.summary else {}

    def count(name: str) -> int | None:
        return int(properties[name]) if name in properties else None

    return Published(
        table=f"lake.{table}",
        snapshot_id=snapshot.snapshot_id,
        committed_at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        operation=snapshot.summary.operation.value if snapshot.summary else "",
        added=count("added-records"),
        total=count("total-records"),
        properties={key: value for key, value in sorted(properties.items()) if key.startswith("trace.")},
    )
