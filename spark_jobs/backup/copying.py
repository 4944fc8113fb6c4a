"""Copy files with their checksums, and verify copies."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet

from spark_jobs.backup.folder import BackupError, Content

_CHUNK = 1 << 20
_SQLITE = b"SQLite format 3\0"


def copy(source: Path, target: Path, rows: int | None = None) -> Content:
    """Copy a file that does not change, durably; a target is there as a whole, or not at all.

    Raises:
        FileNotFoundError: the source has been deleted.
    """
    with source.open("rb") as reader:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.new")
        digest, size = hashlib.sha256(), 0
        with scratch.open("wb") as writer:
            while chunk := reader.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                writer.write(chunk)
            writer.flush()
            os.fsync(writer.fileno())
    os.replace(scratch, target)
    return Content(size, digest.hexdigest(), rows)


def copy_database(source: Path, target: Path) -> Content:
    """Copy a SQLite file in use as it is at one moment (SQLite's online backup)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=60)) as reader,
        closing(sqlite3.connect(target)) as writer,
    ):
        reader.backup(writer)
    return content_of(target)


def is_database(path: Path) -> bool:
    """Whether a file is a SQLite database."""
    with path.open("rb") as reader:
        return reader.read(len(_SQLITE)) == _SQLITE


def content_of(path: Path, rows: int | None = None) -> Content:
    """Read a whole file."""
    with path.open("rb") as reader:
        digest = hashlib.file_digest(reader, "sha256")
        return Content(reader.tell(), digest.hexdigest(), rows)


def verify(path: Path, expected: Content) -> None:
    """Read a whole file, and the footer of a Parquet file.

    Raises:
        BackupError: it is missing, damaged, or has another number of rows.
    """
    try:
        found = content_of(path, expected.rows)
    except OSError as error:
        raise BackupError(f"{path} cannot be read ({error.strerror}): the back-up is damaged") from None
    if found != expected:
        raise BackupError(
            f"{path} is damaged: it has {found.size} bytes with SHA-256 {found.sha256}, not {expected.size} with "
            f"{expected.sha256}"
        )
    if expected.rows is not None:
        rows = pyarrow.parquet.read_metadata(path).num_rows
        if rows != expected.rows:
            raise BackupError(f"{path} has {rows} rows, but its manifest says {expected.rows}")
