"""What a lake stores: live rows, files and bytes by kind of table, from the metadata of the newest snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from benchmarks.models.builds import State
from spark_jobs.lake.tables import EVENTS, RAW

_INDEXES = ("intermediate.int_message_hours", "intermediate.int_identifier_hours")
_FACTS = ("marts.fct_", "marts.orphaned_messages", "marts.dead_letters")
OTHERS = "other tables of marts and intermediate"


@dataclass
class Stored:
    """Of one kind of table.

    Attributes:
        rows: live rows.
        files: data files of the newest snapshots.
        size: their bytes.
    """

    rows: int = 0
    files: int = 0
    size: int = 0


def stored(catalog: Catalog, state: State) -> dict[str, Stored]:
    """Kind of table to what the snapshots of a state hold: raw, events, the facts, each of the two indexes, the others."""
    found: dict[str, Stored] = {}
    for name, snapshot in state.items():
        summary = catalog.load_table(name).snapshot_by_id(snapshot)
        assert summary is not None
        assert summary.summary is not None
        one = found.setdefault(_kind(name), Stored())
        one.rows += int(summary.summary["total-records"] or 0)
        one.files += int(summary.summary["total-data-files"] or 0)
        one.size += int(summary.summary["total-files-size"] or 0)
    return found


def _kind(name: str) -> str:
    if name in (RAW.name, EVENTS.name, *_INDEXES):
        return name
    return "facts" if name.startswith(_FACTS) else OTHERS
