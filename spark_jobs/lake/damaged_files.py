"""Describe missing or unreadable files of a table: the file, the table, and how to recover."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from datetime import date, timedelta

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from spark_jobs.lake import identity

_FILE = re.compile(
    r"(?P<file>[\w/][^\s'\"]*?/(?P<namespace>[\w-]+)/(?P<table>[\w-]+)/(?P<part>metadata|data)/[^\s'\"]*?\.(?:metadata\.json|avro|parquet))\b"
)
# Parts of the error messages of Hadoop, Iceberg, Arrow and Spark.
_MISSING = (
    *("NotFoundException", "FileNotFoundException", "FileNotFoundError", "FILE_NOT_EXIST"),
    "No such file or directory",
)
_UNREADABLE = (
    *("Failed to read file", "Failed to open file", "Failed to fetch file", "Failed to open input stream"),
    *("ChecksumException", "is not a Parquet file", "CANNOT_READ_FILE"),
)
_DAY = re.compile(r"/store_time_day=(\d{4}-\d\d-\d\d)/")
_DOCS = "See docs/maintenance.md, Lost or damaged files"


class DamagedTableError(RuntimeError):
    """The newest metadata file of a table is missing or cannot be read."""


def raise_if_damaged(catalog: Catalog, tables: Collection[str]) -> None:
    """Check the metadata files of tables (names without the catalog); Spark would retry a missing one for minutes.

    Raises:
        DamagedTableError: a table cannot be loaded; the message names it and its metadata file.
    """
    for table, file in unreadable_metadata(catalog):
        if table in tables:
            raise DamagedTableError(damaged_file(table, file))


def unreadable_metadata(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Tables and views of a SQL catalog whose local metadata file is missing or unreadable: name and path."""
    if isinstance(catalog, SqlCatalog):
        for name, location in identity.metadata_files(catalog):
            file = identity.local_path(location)
            if file is not None and identity.read_metadata(file) is None:
                yield name, file


def describe(text: str) -> str | None:
    """Describe in one line the file that an error is about, and how to recover; None if the error is not about a file.

    Args:
        text: the messages of the error and of its causes.
    """
    if not any(sign in text for sign in (*_MISSING, *_UNREADABLE)):
        return None
    found = _FILE.search(text)
    return damaged_file(f"{found['namespace']}.{found['table']}", found["file"]) if found else None


def damaged_file(table: str, file: str) -> str:
    """Describe a missing or unreadable file of a table (`<namespace>.<name>`), and how to recover."""
    path = identity.local_path(file) or file
    what = "cannot be read" if os.path.exists(path) or not identity.local_path(file) else "does not exist"
    kind = "data file" if f"/{table.replace('.', '/')}/data/" in path else "metadata file"
    return f"table {table}: {kind} {path} {what}. Restore it from a backup. {_without_backup(table, path)}{_DOCS}"


def _without_backup(table: str, path: str) -> str:
    if "/data/" not in path:
        return "Without a backup, use an older metadata file of the table. "
    namespace = table.partition(".")[0]
    if namespace in ("marts", "intermediate", "staging"):
        return ""
    day = _DAY.search(path)
    span = f" FROM={day[1]} TO={date.fromisoformat(day[1]) + timedelta(days=1)}" if day else ""
    how = {
        "raw": f"read it again from the brokers if they still have it: make reextract{span}",
        "events": f"decode it again from raw: make replay{span}",
    }.get(namespace)
    return f"Without a backup, delete its day from the table and {how}. " if how else ""
