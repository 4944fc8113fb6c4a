"""Tables that are copied into the serving file: only the partitions that changed are written again."""

from __future__ import annotations

import duckdb
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from spark_jobs.serving.parquet import local_path, no_rows, rows_of, text_list
from spark_jobs.serving.snapshots import changes, time_range, total_rows


def copy(
    connection: duckdb.DuckDBPyConnection, table: Table, older: Snapshot | None, newer: Snapshot | None
) -> int:
    """Make the DuckDB table equal to the snapshot, and return the number of inserted rows.

    Args:
        connection: the serving file.
        table: the Iceberg table.
        older: the snapshot that the DuckDB table equals; None to create it.
        newer: the snapshot to copy; None for no rows.

    Raises:
        RuntimeError: the number of rows is not that of the snapshot.
    """
    name = ".".join(table.name())
    inserted = _replace_partitions(connection, table, older, newer) if older else None
    if inserted is None or _count(connection, name) != total_rows(newer):
        _create(connection, table)
        inserted = _insert(connection, table, changes(table, None, newer).added)
    if (count := _count(connection, name)) != total_rows(newer):
        raise RuntimeError(f"{name}: the serving file has {count} rows, Iceberg {total_rows(newer)}")
    return inserted


def _replace_partitions(
    connection: duckdb.DuckDBPyConnection, table: Table, older: Snapshot, newer: Snapshot | None
) -> int | None:
    """Delete the partitions of removed files and insert the added files; None if that cannot be done.

    A build of the marts replaces whole partitions. After any other rewrite the number of rows differs.
    """
    found = changes(table, older, newer)
    partitions = {time_range(table, file) for file in found.removed}
    conditions = [each.condition for each in partitions if each]
    if len(conditions) < len(partitions):
        return None
    for condition in conditions:
        connection.execute(f"delete from {'.'.join(table.name())} where {condition}")
    return _insert(connection, table, found.added)


def _create(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    name = ".".join(table.name())
    connection.execute(f"create or replace table {name} as {no_rows(table)}")
    for field in table.schema().fields:
        comment = (field.doc or "").replace("'", "''")
        connection.execute(f"comment on column {name}.\"{field.name}\" is '{comment}'")


def _insert(connection: duckdb.DuckDBPyConnection, table: Table, added: list[DataFile]) -> int:
    if not added:
        return 0
    rows = rows_of(table, text_list(local_path(file) for file in added))
    return int(connection.execute(f"insert into {'.'.join(table.name())} {rows}").fetchall()[0][0])


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    return connection.execute(f"select count(*) from {name}").fetchall()[0][0]
