"""Copy files with their checksums, and verify copies."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet

from spark_jobs.backup.folder import FILES, BackupError, Content, stored

log = logging.getLogger(__name__)
_CHUNK = 1 << 20
_SQLITE = b"SQLite format 3\0"


def copy(source: Path, target: Path, rows: int | None = None) -> Content:
    """Copy a file that does not change, durably; a target is there as a whole, or not at all.

    Raises:
        FileNotFoundError: the source has been deleted.
    """
    scratch = target.with_name(f".{target.name}.new")
    content = _write(source, scratch, rows)
    os.replace(scratch, target)
    return content


def store(source: Path, root: Path, rows: int | None, before: Content | None) -> Content:
    """Have the content of a file in a folder of backups, verified. One that an earlier backup has is only read.

    Args:
        source: a file that does not change.
        root: the folder of backups.
        rows: those of a data file.
        before: the content in an earlier backup.

    Raises:
        FileNotFoundError: the source has been deleted.
        BackupError: a Parquet file has another number of rows, or the copy cannot be read.
    """
    status = source.stat()
    if before and (before.size, before.modified) == (status.st_size, status.st_mtime_ns):
        try:
            verify(stored(root, before), before)
            return before
        except BackupError as error:
            log.warning("%s. It is copied again, which repairs the earlier backups", error)
    scratch = root / FILES / ".new"
    content = _write(source, scratch, rows)
    target = stored(root, content)
    target.parent.mkdir(exist_ok=True)
    os.replace(scratch, target)
    verify(target, content)
    return replace(content, modified=status.st_mtime_ns)


def _write(source: Path, target: Path, rows: int | None) -> Content:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as reader:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as writer:
            while chunk := reader.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                writer.write(chunk)
            writer.flush()
            os.fsync(writer.fileno())
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
        raise BackupError(f"{path} cannot be read ({error.strerror}): the backup is damaged") from None
    if found != expected:
        raise BackupError(
            f"{path} is damaged: it has {found.size} bytes with SHA-256 {found.sha256}, not {expected.size} with "
            f"{expected.sha256}"
        )
    if expected.rows is not None:
        rows = pyarrow.parquet.read_metadata(path).num_rows
        if rows != expected.rows:
            raise BackupError(f"{path} has {rows} rows, but its manifest says {expected.rows}")
