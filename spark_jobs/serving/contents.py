"""What a serving file says of itself: its publication, the lake, and the snapshots that its relations show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import duckdb

from spark_jobs.lake import identity
from spark_jobs.serving import files
from spark_jobs.settings import Settings

# Of the tables `serving.*` and the packed histograms; a file of another format is not reused.
FORMAT = "5"
_REMEDY = "the next run of the marts writes a new file"


def files_function(table: str) -> str:
    """The table function that reads files of a table (name without the catalog).

    Its arguments are a list of paths and, for a table with partitions by time, optionally a range of time.
    """
    return f'serving."{table} files"'


class ServingFileError(Exception):
    """There is no serving file that readers of this lake can use."""


@dataclass(frozen=True)
class Contents:
    """The row of `serving.publications`.

    Attributes:
        publication_id: the publication of the marts that the file shows.
        format: of the tables `serving.*`.
        warehouse: the location of the tables; the file reads large tables there.
    """

    publication_id: str
    format: str
    warehouse: str

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection) -> Contents:
        columns = "publication_id, format, warehouse"
        (row,) = connection.execute(f"select {columns} from serving.publications").fetchall()
        return cls(*row)


def current_file(settings: Settings) -> Path:
    """The newest serving file of the lake of the settings.

    Raises:
        ServingFileError: there is none yet, it cannot be read, or it reads the tables of another lake.
    """
    file, _ = _current(settings)
    return file


def is_current(settings: Settings, publication_id: str) -> bool:
    """Whether readers see this publication."""
    try:
        _, contents = _current(settings)
    except ServingFileError:
        return False
    return contents.publication_id == publication_id


def _current(settings: Settings) -> tuple[Path, Contents]:
    try:
        identity.raise_if_not_in_home(settings)
    except identity.WrongLakeError as error:
        raise ServingFileError(str(error)) from None
    file = files.current(settings)
    if file is None:
        raise ServingFileError(
            f"no serving file below {files.folder(settings)} yet: run `make run`, or wait for trace_marts"
        )
    try:
        with duckdb.connect(file, read_only=True) as connection:
            contents = Contents.of(connection)
    except duckdb.Error as error:
        raise ServingFileError(f"{file} cannot be read ({error}): {_REMEDY}") from error
    if contents.format != FORMAT:
        raise ServingFileError(f"{file} was written by another version (format {contents.format}): {_REMEDY}")
    if contents.warehouse != settings.warehouse_uri:
        raise ServingFileError(
            f"{file} reads the tables in {contents.warehouse}, but the warehouse of the settings is "
            f"{settings.warehouse_uri}: {_REMEDY}"
        )
    return file, contents


def needed_snapshots(settings: Settings, table: str) -> set[int]:
    """The snapshots of a table (name without the catalog) that the retained serving files show.

    Raises:
        duckdb.Error: a file cannot be read.
    """
    return {
        snapshot for file in files.retained(settings) for name, snapshot in _snapshots(file) if name == table
    }


@lru_cache
def _snapshots(file: Path) -> frozenset[tuple[str, int]]:
    """(table, snapshot id) of the relations of a file, which never changes; none of a file that was just removed."""
    try:
        with duckdb.connect(file, read_only=True) as connection:
            rows = connection.execute("select table_name, snapshot_id from serving.relations").fetchall()
    except duckdb.Error:
        if file.exists():
            raise
        return frozenset()
    return frozenset(rows)
