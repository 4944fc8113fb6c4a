"""DuckDB queries that read the Parquet files of an Iceberg table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    TimestamptzType,
)

_TYPES: dict[type[IcebergType], str] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    DateType: "DATE",
    TimestamptzType: "TIMESTAMP WITH TIME ZONE",
    StringType: "VARCHAR",
    BinaryType: "BLOB",
}


def local_path(file: DataFile) -> str:
    """The path of a data file.

    Raises:
        ValueError: it is not on a local disk, or DuckDB would take it for a pattern.
    """
    if urlsplit(file.file_path).scheme not in ("", "file"):
        raise ValueError(f"{file.file_path} is not on a local disk: the serving file cannot read it")
    # Not the path of the URL: Iceberg quotes nothing in it.
    path = str(Path("/", file.file_path.removeprefix("file:")))
    if any(character in path for character in "*?["):
        raise ValueError(f"{path}: DuckDB reads no path with *, ? or [. Use another folder for TRACE_HOME")
    return path


def rows_of(table: Table, paths: str, without: Collection[str] = (), where: str = "true") -> str:
    """A query of files. Columns are found by Iceberg's field ids; one that an older file lacks is NULL.

    Args:
        table: of the files.
        paths: a DuckDB expression, such as that of `text_list`.
        without: columns that are left out.
        where: a condition on the columns as they are in the files: their times have a zone. DuckDB skips row groups by it,
            which it does not by a condition on the times without a zone.
    """
    fields = ", ".join(
        f"{f.field_id}: {{name: {_text(f.name)}, type: {_text(_type(f.field_type))}, default_value: NULL}}"
        for f in table.schema().fields
    )
    return f"select {_utc_columns(table, without)} from read_parquet({paths}, schema = map {{{fields}}}) where {where}"


def no_rows(table: Table, without: Collection[str] = ()) -> str:
    """A query without rows, for a table without files."""
    empty = ", ".join(f'null::{_type(f.field_type)} as "{f.name}"' for f in table.schema().fields)
    return f"select {_utc_columns(table, without)} from (select {empty}) where false"


def _utc_columns(table: Table, without: Collection[str]) -> str:
    """All columns for a DuckDB query; times without a zone, in UTC, so that they do not depend on the reader's zone."""
    return ", ".join(
        f'"{f.name}" at time zone \'UTC\' as "{f.name}"'
        if isinstance(f.field_type, TimestamptzType)
        else f'"{f.name}"'
        for f in table.schema().fields
        if f.name not in without
    )


def _type(of: IcebergType) -> str:
    if isinstance(of, MapType):
        return f"MAP({_type(of.key_type)}, {_type(of.value_type)})"
    if isinstance(of, ListType):
        return f"{_type(of.element_type)}[]"
    if type(of) not in _TYPES:
        raise ValueError(f"the serving file does not know the type {of}")
    return _TYPES[type(of)]


def text_list(values: Iterable[str]) -> str:
    """A list of texts as a DuckDB literal."""
    return f"[{', '.join(map(_text, values))}]"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
