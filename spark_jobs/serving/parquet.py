"""DuckDB queries that read the Parquet files of an Iceberg table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Selection:
    """How a query shows an Iceberg table.

    Attributes:
        without: columns that are left out.
        packs_histograms: maps are packed as in packed_histograms.sql.
    """

    without: Collection[str] = ()
    packs_histograms: bool = False


ALL = Selection()


def path_of(file: DataFile) -> str:
    """The path of a data file, or its address on S3.

    Raises:
        ValueError: it is elsewhere, or DuckDB would take it for a pattern.
    """
    scheme = urlsplit(file.file_path).scheme
    if scheme not in ("", "file", "s3"):
        raise ValueError(
            f"{file.file_path} is neither in a folder nor on S3: the serving file cannot read it"
        )
    # Not the path of the URL: Iceberg quotes nothing in it.
    path = file.file_path if scheme == "s3" else str(Path("/", file.file_path.removeprefix("file:")))
    if any(character in path for character in "*?["):
        raise ValueError(f"{path}: DuckDB reads no path with *, ? or [. Use another folder for TRACE_HOME")
    return path


def rows_of(table: Table, paths: str, selection: Selection = ALL, where: str = "true") -> str:
    """A query of files. Columns are found by Iceberg's field ids; one that an older file lacks is NULL.

    Args:
        table: of the files.
        paths: a DuckDB expression, such as that of `text_list`.
        selection: of its columns.
        where: a condition on the columns as they are in the files: their times have a zone. DuckDB skips row groups by it,
            which it does not by a condition on the times without a zone.
    """
    fields = ", ".join(
        f"{f.field_id}: {{name: {_text(f.name)}, type: {_text(_type(f.field_type))}, default_value: NULL}}"
        for f in table.schema().fields
    )
    return f"select {_columns(table, selection)} from read_parquet({paths}, schema = map {{{fields}}}) where {where}"


def no_rows(table: Table, selection: Selection = ALL) -> str:
    """A query without rows, for a table without files."""
    empty = ", ".join(f'null::{_type(f.field_type)} as "{f.name}"' for f in table.schema().fields)
    return f"select {_columns(table, selection)} from (select {empty}) where false"


def _columns(table: Table, selection: Selection) -> str:
    """Columns for a DuckDB query; times without a zone, in UTC, so that they do not depend on the reader's zone."""
    found = []
    for field in table.schema().fields:
        name = f'"{field.name}"'
        if field.name in selection.without:
            continue
        if isinstance(field.field_type, TimestamptzType):
            found.append(f"{name} at time zone 'UTC' as {name}")
        elif isinstance(field.field_type, MapType) and selection.packs_histograms:
            found.append(f"pack_histogram({name}) as {name}")
        else:
            found.append(name)
    return ", ".join(found)


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
