"""Tables that are too large to copy: the serving file has views that read their Parquet files in place.

A view names its files, so it shows one snapshot. It is a union of views by month of the partition: a publication
replaces only the views of the months that changed, and a query with a range of time opens only the files of its months.
A table function reads some of the files, `serving."marts.fct_sends files"(paths)`, with paths of `serving.files`; with a
range of time, `(paths, first, before)`, it reads only the rows whose partition column is in [first, before).
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import duckdb
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import TimestamptzType

from spark_jobs.serving.contents import files_function
from spark_jobs.serving.parquet import no_rows, path_of, rows_of, text_list
from spark_jobs.serving.snapshots import bucket, changes, time_range, total_rows

# The files that are not in a partition by time.
_NO_MONTH = "all"


def point_to(
    connection: duckdb.DuckDBPyConnection, table: Table, older: Snapshot | None, newer: Snapshot | None
) -> int:
    """Make the view show the snapshot, and return the number of files that were added.

    Args:
        connection: the serving file. Its table `serving.files` has the files of all such views.
        table: the Iceberg table.
        older: the snapshot that the view shows; None to create it.
        newer: the snapshot to show; None for no rows.

    Raises:
        ValueError: the files are neither in a folder nor on S3, or have a column of an unknown type.
        RuntimeError: the number of rows is not that of the snapshot.
    """
    name = ".".join(table.name())
    found = changes(table, older, newer)
    if older is None:
        drop(connection, name)
    rows = [_file(table, file) for file in found.added]
    gone = [_file(table, file) for file in found.removed]
    if gone:
        connection.execute(
            "delete from serving.files where table_name = ? and path in (select unnest(?))",
            [name, [row.path for row in gone]],
        )
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        connection.execute(
            "insert into serving.files select unnest(?), unnest(?::timestamp[]), unnest(?::timestamp[]), unnest(?::integer[]), "
            "unnest(?::integer[]), unnest(?), unnest(?)",
            columns,
        )
    (count,) = connection.execute(
        "select coalesce(sum(row_count), 0)::bigint from serving.files where table_name = ?", [name]
    ).fetchall()[0]
    if count != total_rows(newer):
        raise RuntimeError(
            f"{name}: the files of the serving file have {count} rows, Iceberg {total_rows(newer)}"
        )
    for month in {_month(row.partition_from) for row in (*rows, *gone)}:
        _replace_month(connection, table, month)
    _replace_union(connection, table)
    return len(rows)


class _File(NamedTuple):
    """A row of `serving.files`."""

    table_name: str
    partition_from: datetime | None
    partition_to: datetime | None
    bucket: int | None
    buckets: int | None
    path: str
    row_count: int


def _file(table: Table, file: DataFile) -> _File:
    times, of = time_range(table, file), bucket(table, file)
    return _File(
        table_name=".".join(table.name()),
        partition_from=times.start if times else None,
        partition_to=times.end if times else None,
        bucket=of.number if of else None,
        buckets=of.of if of else None,
        path=path_of(file),
        row_count=file.record_count,
    )


def _month(start: datetime | None) -> str:
    return f"{start:%Y_%m}" if start else _NO_MONTH


def _view(name: str, month: str) -> str:
    return f'serving."{name} {month}"'


def drop(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Drop the views of a table."""
    connection.execute(f"drop view if exists {name}")
    connection.execute(f"drop macro table if exists {files_function(name)}")
    for (month,) in _months(connection, name):
        connection.execute(f"drop view if exists {_view(name, month)}")
    connection.execute("delete from serving.files where table_name = ?", [name])


def _months(connection: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str]]:
    prefix = f"{name} "
    return connection.execute(
        "select view_name[? + 1:] from duckdb_views() where schema_name = 'serving' and starts_with(view_name, ?) order by 1",
        [len(prefix), prefix],
    ).fetchall()


def _replace_month(connection: duckdb.DuckDBPyConnection, table: Table, month: str) -> None:
    name = ".".join(table.name())
    found = connection.execute(
        "select path from serving.files where table_name = ? and coalesce(strftime(partition_from, '%Y_%m'), ?) = ? order by 1",
        [name, _NO_MONTH, month],
    ).fetchall()
    if not found:
        connection.execute(f"drop view if exists {_view(name, month)}")
        return
    rows = rows_of(table, text_list(path for (path,) in found))
    if month != _NO_MONTH:
        # The planner skips the view of a month that a query excludes.
        column = _time_column(table)
        start = f"date '{month.replace('_', '-')}-01'"
        rows = f"select * from ({rows}) where {column} >= {start} and {column} < {start} + interval 1 month"
    connection.execute(f"create or replace view {_view(name, month)} as {rows}")


def _replace_union(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    name = ".".join(table.name())
    months = [f"select * from {_view(name, month)}" for (month,) in _months(connection, name)]
    connection.execute(f"create or replace view {name} as {' union all '.join(months) or no_rows(table)}")
    function = f"create or replace macro {files_function(name)}(paths) as table ({rows_of(table, 'paths')})"
    if column := _time_column(table):
        in_range = f"{column} >= first::timestamp at time zone 'UTC' and {column} < before::timestamp at time zone 'UTC'"
        function += f", (paths, first, before) as table ({rows_of(table, 'paths', where=in_range)})"
    connection.execute(function)


def _time_column(table: Table) -> str | None:
    """The column by whose hour or day the table is partitioned, if it is."""
    for partition in table.spec().fields[:1]:
        column = table.schema().find_field(partition.source_id)
        if isinstance(column.field_type, TimestamptzType):
            return column.name
    return None
