"""Which files a catalog in SQLite names: those that every live snapshot of every table needs, and the views."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.io import load_file_io
from pyiceberg.manifest import FileFormat, ManifestEntryStatus
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

from spark_jobs.backup.folder import BackupError
from spark_jobs.lake.identity import local_path


@dataclass
class Table:
    """A table or view of the catalog.

    Attributes:
        name: `<namespace>.<table>`.
        metadata: the current metadata file.
        files: path of each file that its metadata needs, with its number of rows; None for files that are not data files.
        rows: records in the data files of the current snapshot; 0 for a view.
    """

    name: str
    metadata: str
    is_view: bool = False
    files: dict[str, int | None] = field(default_factory=dict)
    rows: int = 0


def tables_of(catalog: Path) -> list[Table]:
    """The tables and views of a catalog file, without their files."""
    with closing(sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)) as database:
        rows = database.execute(
            "select table_namespace || '.' || table_name, metadata_location, coalesce(iceberg_type, 'TABLE') "
            "from iceberg_tables where metadata_location is not null order by 1"
        ).fetchall()
    return [Table(name, path_of(location), kind == "VIEW") for name, location, kind in rows]


def path_of(location: str) -> str:
    """The local path of a location; raises ValueError for any other."""
    if (path := local_path(location)) is None:
        raise ValueError(f"{location} is no local file")
    return path


def named_files(tables: list[Table], warehouse: Path) -> dict[str, int | None]:
    """Path below the warehouse of every file that the tables need, with its number of rows.

    Raises:
        FileNotFoundError: a file of metadata has been deleted since the catalog was read.
        BackupError: a file is not below the warehouse.
    """
    found = {}
    for table in tables:
        read_files(table)
        for path, rows in table.files.items():
            if not Path(path).is_relative_to(warehouse):
                raise BackupError(
                    f"{table.name} names {path}, which is not below {warehouse}: the home was moved without `make move`. Remove "
                    "a link at the path that its tables name, move it back there, set TRACE_HOME to that, and run this again"
                )
            found[str(Path(path).relative_to(warehouse))] = rows
    return found


def read_files(table: Table) -> None:
    """Fill in the files that the current metadata of a table names, in all of its snapshots, branches and tags.

    Raises:
        FileNotFoundError: a file has been deleted since the catalog was read.
    """
    table.files[table.metadata] = None
    if table.is_view:
        return
    io = load_file_io()
    metadata: TableMetadata = FromInputFile.table_metadata(io.new_input(table.metadata))
    for previous in metadata.metadata_log:
        # Maintenance deletes old ones; no snapshot needs them.
        path = path_of(previous.metadata_file)
        if Path(path).exists():
            table.files[path] = None
    manifests: set[str] = set()
    for snapshot in metadata.snapshots:
        table.files[path_of(snapshot.manifest_list)] = None
        for manifest in snapshot.manifests(io):
            if manifest.manifest_path in manifests:
                continue
            manifests.add(manifest.manifest_path)
            table.files[path_of(manifest.manifest_path)] = None
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
                # The file of a deleted entry is needed by the snapshots before, which name it in manifests of their own.
                if entry.status != ManifestEntryStatus.DELETED:
                    file = entry.data_file
                    is_parquet = file.file_format == FileFormat.PARQUET
                    table.files[path_of(file.file_path)] = file.record_count if is_parquet else None
    if (current := metadata.snapshot_by_id(metadata.current_snapshot_id or -1)) and current.summary:
        table.rows = int(current.summary.additional_properties.get("total-records", 0))
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        table.files[path_of(statistics.statistics_path)] = None
