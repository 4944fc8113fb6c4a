"""Files of a table that are missing or cannot be read: which one, of which table, and what to do."""

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
# What Hadoop, Iceberg, Arrow and Spark say of such a file.
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
    """Look at the metadata of tables (names without the catalog) before Spark does, which tries it for minutes.

    Raises:
        DamagedTableError: one of them cannot be loaded; the message names it and its file.
    """
    for table, file in unreadable_metadata(catalog):
        if table in tables:
            raise DamagedTableError(damaged_file(table, file))


def unreadable_metadata(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """The tables and views of a SQL catalog whose metadata file is on this machine and missing or damaged: name, file."""
    if isinstance(catalog, SqlCatalog):
        for name, location in identity.metadata_files(catalog):
            file = identity.local_path(location)
            if file is not None and identity.read_metadata(file) is None:
                yield name, file


def describe(text: str) -> str | None:
    """What the text of an error says of a file of a table, in one line with what to do; None where it is of none.

    Args:
        text: of the error and of all that it came from.
    """
    if not any(sign in text for sign in (*_MISSING, *_UNREADABLE)):
        return None
    found = _FILE.search(text)
    return damaged_file(f"{found['namespace']}.{found['table']}", found["file"]) if found else None


def damaged_file(table: str, file: str) -> str:
    """What to say of a file of a table (`<namespace>.<name>`) that is missing or cannot be read, and what to do."""
    path = identity.local_path(file) or file
    what = "cannot be read" if os.path.exists(path) or not identity.local_path(file) else "does not exist"
    kind = "data file" if f"/{table.replace('.', '/')}/data/" in path else "metadata file"
    return f"table {table}: {kind} {path} {what}. Put it back from a backup. {_without_backup(table, path)}{_DOCS}"


def _without_backup(table: str, path: str) -> str:
    if "/data/" not in path:
        return "Without one, go back to an older metadata file of the table. "
    namespace = table.partition(".")[0]
    if namespace in ("marts", "intermediate", "staging"):
        return ""
    day = _DAY.search(path)
    span = f" FROM={day[1]} TO={date.fromisoformat(day[1]) + timedelta(days=1)}" if day else ""
    how = {
        "raw": f"read it again from the brokers, as far as they still have it: make reextract{span}",
        "events": f"decode it again from raw: make replay{span}",
    }.get(namespace)
    return f"Without one, delete its day from the table and {how}. " if how else ""
