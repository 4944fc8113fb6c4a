"""What a serving file shows: tables, snapshots, and which columns and rows of them."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from spark_jobs.serving import files
from spark_jobs.serving.snapshots import total_rows
from spark_jobs.settings import Settings

# The dashboards show no single sends and attempts, and no user keys: a record that cannot be decoded may contain one.
_NOT_IN_DASHBOARDS = (
    "marts.fct_sends",
    "marts.fct_consume_attempts",
    "marts.fct_deliveries",
    "marts.fct_messages",
    "marts.fct_transactions",
)
_OPS_IN_DASHBOARDS = ("ops.alerts", "ops.check_results", "ops.ingest_gaps")


@dataclass(frozen=True)
class Shown:
    """A relation of a serving file.

    Attributes:
        table: the Iceberg table.
        snapshot: the snapshot to show; None for no rows.
        is_copied: whether its rows are in the file, or read in place.
        without: columns that are left out.
        newest_rows: only the newest partitions with at most so many rows; None for all rows.
    """

    table: Table
    snapshot: Snapshot | None
    is_copied: bool = True
    without: tuple[str, ...] = ()
    newest_rows: int | None = None

    @property
    def name(self) -> str:
        """The table's name without the catalog."""
        return ".".join(self.table.name())

    @property
    def row_count(self) -> int:
        """Rows of the snapshot."""
        return total_rows(self.snapshot)

    @property
    def columns(self) -> str:
        """The columns with their types, and the limit of the rows: if it changes, the relation is written again."""
        fields = self.table.schema().fields
        columns = ", ".join(
            f"{field.name} {field.field_type}" for field in fields if field.name not in self.without
        )
        return columns if self.newest_rows is None else f"{columns}; newest {self.newest_rows} rows"


def for_dashboards(settings: Settings, catalog: Catalog) -> list[Shown]:
    """The relations of the file of the dashboards: all are copied, so it needs no other file.

    It has the marts by hour and day, the dimensions, `slo_burn`, the newest orphaned messages, and alerts, check results and
    ingest gaps; no user keys.
    """
    names = {".".join(name) for name in catalog.list_tables("marts")} - set(_NOT_IN_DASHBOARDS)
    names |= {name for name in _OPS_IN_DASHBOARDS if catalog.table_exists(name)}
    found = []
    for name in sorted(names):
        table = catalog.load_table(name)
        snapshot = table.current_snapshot()
        is_fact = any(field.name == "hour" for field in table.spec().fields)
        too_large = is_fact and total_rows(snapshot) > settings.serving.copied_rows
        newest = settings.serving.copied_rows if too_large else None
        found.append(Shown(table, snapshot, without=files.WITHOUT, newest_rows=newest))
    return found
