"""Commit properties to a table by a snapshot without rows, with pyiceberg."""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import TableProperties

from spark_jobs.lake.catalog import lake
from spark_jobs.settings import Settings

ADVANCED = "trace.advanced"  # a property of these snapshots


def commit(settings: Settings, table: str, head: int | None, properties: dict[str, str]) -> bool:
    """Add a snapshot with these properties to main, if main is still at `head`.

    Args:
        settings: where the catalog is.
        table: its name without the catalog.
        head: the snapshot id of main when the properties were computed.
        properties: of the snapshot.

    Returns:
        Whether main was still there; if not, nothing was committed.
    """
    loaded = lake(settings).load_table(table)
    newest = loaded.current_snapshot()
    if newest is None or newest.snapshot_id != head:
        return False
    # Of this object alone: pyiceberg would repeat a commit that conflicts, on top of the other one.
    loaded.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    try:
        with loaded.transaction() as transaction:
            transaction.update_snapshot(properties | {ADVANCED: "true"}).fast_append().commit()
    except CommitFailedException:
        return False
    return True
