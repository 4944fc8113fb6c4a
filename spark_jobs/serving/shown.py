"""What the serving files show: tables, snapshots, and which columns and rows of them."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from spark_jobs.lake.offsets import CHANGE_SEQ
from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.mart_build.inputs import Published
from spark_jobs.serving import files
from spark_jobs.serving.parquet import ALL, Selection
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
# The tables of these namespaces are copied; facts and ops only if they are not too large.
_COPIED = ("marts", "ops")
# These are always read in place: the records, and the indexes of the look-up.
_IN_PLACE = (RAW.name, EVENTS.name, "intermediate.int_message_hours", "intermediate.int_identifier_hours")
_OF_DASHBOARDS = Selection(files.WITHOUT, packs_histograms=True)
_OPS_IN_DASHBOARDS = ("ops.alerts", "ops.check_results", "ops.ingest_gaps")


@dataclass(frozen=True)
class Shown:
    """A relation of a serving file.

    Attributes:
        table: the Iceberg table.
        snapshot: the snapshot to show; None for no rows.
        is_copied: whether its rows are in the file, or read in place.
        selection: of its columns.
        newest_rows: only the newest partitions with at most so many rows; None for all rows.
    """

    table: Table
    snapshot: Snapshot | None
    is_copied: bool = True
    selection: Selection = ALL
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
            f"{field.name} {field.field_type}" for field in fields if field.name not in self.selection.without
        )
        return columns if self.newest_rows is None else f"{columns}; newest {self.newest_rows} rows"


def for_dashboards(settings: Settings, catalog: Catalog) -> list[Shown]:
    """The relations of the file of the dashboards: all are copied, so it needs no other file.

    It has the marts by hour and day, the dimensions, `slo_burn`, the newest orphaned messages and dead letters, and alerts,
    check results and ingest gaps; no user keys.
    """
    names = {".".join(name) for name in catalog.list_tables("marts")} - set(_NOT_IN_DASHBOARDS)
    names |= {name for name in _OPS_IN_DASHBOARDS if catalog.table_exists(name)}
    found = []
    for name in sorted(names):
        table = catalog.load_table(name)
        snapshot = table.current_snapshot()
        too_large = _is_fact(table) and total_rows(snapshot) > settings.serving.copied_rows
        newest = settings.serving.copied_rows if too_large else None
        found.append(Shown(table, snapshot, selection=_OF_DASHBOARDS, newest_rows=newest))
    return found


def for_readers(settings: Settings, catalog: Catalog, published: Published) -> list[Shown]:
    """The relations of the file of `make sql` and the look-up: all marts and ops, and the records and indexes in place.

    Raises:
        ValueError: the snapshot of events with the records of the publication was expired.
    """
    found = []
    for name, table in _tables(catalog).items():
        snapshot = _snapshot(table, published)
        found.append(Shown(table, snapshot, _is_copied(settings, name, table, total_rows(snapshot))))
    return found


def _is_copied(settings: Settings, name: str, table: Table, rows: int) -> bool:
    """Whether a table is copied. Marts by hour and day always are: they grow with names and hours, not with messages."""
    if name in _IN_PLACE:
        return False
    return rows <= settings.serving.copied_rows or (name.startswith("marts.") and not _is_fact(table))


def _is_fact(table: Table) -> bool:
    return any(field.name == "hour" for field in table.spec().fields)


def _tables(catalog: Catalog) -> dict[str, Table]:
    names = {".".join(name) for namespace in _COPIED for name in catalog.list_tables(namespace)}
    names |= {name for name in _IN_PLACE if catalog.table_exists(name)}
    return {name: catalog.load_table(name) for name in sorted(names)}


def _snapshot(table: Table, published: Published) -> Snapshot | None:
    """The snapshot to show: of events, the newest one without later records than the publication; else main."""
    current = table.current_snapshot()
    if ".".join(table.name()) != EVENTS.name:
        return current
    newest = None
    for snapshot in ancestors_of(current, table.metadata):
        newest = newest or snapshot
        # A snapshot without a change_seq (rewritten manifests) has the records of the snapshot before.
        change_seq = snapshot.summary.additional_properties.get(CHANGE_SEQ) if snapshot.summary else None
        if change_seq and int(change_seq) > published.change_seq_to:
            newest = None
        elif change_seq:
            return newest
    raise ValueError(
        f"{EVENTS.full_name} has no snapshot up to change_seq {published.change_seq_to}: it was expired. "
        "The next publication builds the serving file"
    )
