"""Tables that are copied into the serving file: only the partitions that changed are written again."""

from __future__ import annotations

from datetime import datetime

import duckdb
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from spark_jobs.serving.parquet import ALL, Selection, no_rows, path_of, rows_of, text_list
from spark_jobs.serving.snapshots import changes, time_range, total_rows


def copy(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    older: Snapshot | None,
    newer: Snapshot | None,
    selection: Selection = ALL,
) -> int:
    """Make the DuckDB table equal to the snapshot, and return the number of inserted rows.

    Args:
        connection: the serving file.
        table: the Iceberg table.
        older: the snapshot that the DuckDB table equals; None to create it.
        newer: the snapshot to copy; None for no rows.
        selection: of its columns.

    Raises:
        RuntimeError: the number of rows is not that of the snapshot.
    """
    name = ".".join(table.name())
    inserted = _replace_partitions(connection, table, older, newer, selection) if older else None
    if inserted is None or _count(connection, name) != total_rows(newer):
        create(connection, table, selection)
        inserted = insert(connection, table, changes(table, None, newer).added, selection)
    if (count := _count(connection, name)) != total_rows(newer):
        raise RuntimeError(f"{name}: the serving file has {count} rows, Iceberg {total_rows(newer)}")
    return inserted


def copy_newest(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    snapshot: Snapshot | None,
    rows: int,
    selection: Selection = ALL,
) -> int:
    """Create the DuckDB table with the newest partitions of the snapshot that have at most so many rows; return their number.

    Rows that are in no partition by time count as the oldest.
    """
    by_partition: dict[datetime, list[DataFile]] = {}
    for file in changes(table, None, snapshot).added:
        partition = time_range(table, file)
        by_partition.setdefault(partition.start if partition else datetime.min, []).append(file)
    newest: list[DataFile] = []
    for start in sorted(by_partition, reverse=True):
        rows -= sum(file.record_count for file in by_partition[start])
        if rows < 0:
            break
        newest += by_partition[start]
    create(connection, table, selection)
    return insert(connection, table, newest, selection)


def _replace_partitions(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    older: Snapshot,
    newer: Snapshot | None,
    selection: Selection,
) -> int | None:
    """Delete the partitions of removed files and insert the files that they have now; None if that cannot be done.

    Most tables are built by whole partitions, so they have the added files only. Of a fact, files of them may be left.
    """
    found = changes(table, older, newer)
    partitions = {time_range(table, file) for file in found.removed}
    conditions = [each.condition for each in partitions if each]
    if len(conditions) < len(partitions) or len(table.spec().fields) > 1:
        return None
    for condition in conditions:
        connection.execute(f"delete from {'.'.join(table.name())} where {condition}")
    inserted = insert(connection, table, found.added, selection)
    if _count(connection, ".".join(table.name())) != total_rows(newer):
        added = {file.file_path for file in found.added}
        live = changes(table, None, newer).added
        left = [
            file for file in live if file.file_path not in added and time_range(table, file) in partitions
        ]
        inserted += insert(connection, table, left, selection)
    return inserted


def create(connection: duckdb.DuckDBPyConnection, table: Table, selection: Selection = ALL) -> None:
    """Create or replace the table, without rows."""
    name = ".".join(table.name())
    connection.execute(f"create or replace table {name} as {no_rows(table, selection)}")
    for field in table.schema().fields:
        if field.name in selection.without:
            continue
        comment = (field.doc or "").replace("'", "''")
        connection.execute(f"comment on column {name}.\"{field.name}\" is '{comment}'")


def insert(
    connection: duckdb.DuckDBPyConnection, table: Table, added: list[DataFile], selection: Selection = ALL
) -> int:
    """Insert the rows of data files; return their number."""
    if not added:
        return 0
    rows = rows_of(table, text_list(path_of(file) for file in added), selection)
    return int(connection.execute(f"insert into {'.'.join(table.name())} {rows}").fetchall()[0][0])


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    return connection.execute(f"select count(*) from {name}").fetchall()[0][0]
