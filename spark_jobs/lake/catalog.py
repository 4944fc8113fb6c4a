"""Open the catalog `lake` with pyiceberg, without Spark, and read snapshot properties."""

from __future__ import annotations

import gzip
import os
import zlib
from functools import cache

import pyiceberg.table
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.exceptions import ValidationError as InvalidMetadataError
from pyiceberg.table.snapshots import Operation, ancestors_of
from sqlalchemy.exc import IntegrityError, ProgrammingError
from tenacity import (
    Retrying,
    retry,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random,
)

from spark_jobs.lake import deployment, identity
from spark_jobs.lake.damaged_files import DamagedTableError, damaged_file
from spark_jobs.lake.tables import Table
from spark_jobs.settings import CATALOG, Settings

# What gzip raises for a file that is cut, or is none.
_NOT_UNPACKED = (EOFError, gzip.BadGzipFile, zlib.error)
PROPERTY_PREFIX = "trace."  # the prefix of this project's snapshot properties


def lake(settings: Settings) -> Catalog:
    """The catalog that the Spark sessions call `lake`.

    A process has one object per server, and so one pool of connections; the file of SQLite is opened each time, as it may
    have been replaced.

    Raises:
        SettingsError: its credentials are not in the environment.
        WrongLakeError: it is not the lake that the settings mean.
    """
    properties = deployment.pyiceberg_properties(settings)
    if settings.catalog.kind == "sqlite":
        catalog = _open("sqlite", tuple(properties.items()), os.getpid())
    else:
        catalog = _opened(settings.catalog.kind, tuple(properties.items()), os.getpid())
    identity.verify(settings, catalog)
    return catalog


# Two first jobs on an empty database both create pyiceberg's tables, and one of them fails.
@retry(
    retry=retry_if_exception_type((IntegrityError, ProgrammingError)),
    stop=stop_after_attempt(5),
    wait=wait_random(0.1, 1),
    reraise=True,
)
def _open(kind: str, properties: tuple[tuple[str, str], ...], process_id: int) -> Catalog:
    which = {"type": "rest"} if kind == "rest" else {"py-catalog-impl": f"{__name__}.{SqlLake.__name__}"}
    return load_catalog(CATALOG, **which, **dict(properties))


# A connection does not survive a fork, so a child process opens its own.
_opened = cache(_open)


class SqlLake(SqlCatalog):
    """pyiceberg's SQL catalog, with errors that name the table and the metadata file."""

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> pyiceberg.table.Table:
        # Not public, but every load of a table calls it, and only it knows the metadata file.
        try:
            return super()._convert_orm_to_iceberg(orm_table)
        except (InvalidMetadataError, ValueError, FileNotFoundError, *_NOT_UNPACKED) as error:
            table = f"{orm_table.table_namespace}.{orm_table.table_name}"
            why = " ".join(str(error).split())[:200]
            what = damaged_file(table, orm_table.metadata_location or "")
            raise DamagedTableError(f"{what} ({type(error).__name__}: {why})") from error


def retry_commit() -> Retrying:
    """Retry a commit of pyiceberg or Spark that conflicted with a concurrent commit; such a commit has changed nothing.

    Iceberg does not retry it, or not often enough. Each attempt must load the table again.
    """
    return Retrying(
        retry=retry_if_exception(is_commit_conflict),
        stop=stop_after_attempt(10),
        wait=wait_random(0.05, 0.5),
        reraise=True,
    )


def is_commit_conflict(error: BaseException) -> bool:
    """Whether a commit failed because of a concurrent commit; Spark passes Java's exception on as text."""
    is_conflict = isinstance(error, (CommitFailedException, ValidationException))
    return is_conflict or "CommitFailedException" in str(error)


def head(settings: Settings, table: Table) -> int | None:
    """The snapshot id of main; None before the first commit."""
    snapshot = lake(settings).load_table(table.name).current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def rewrites_since(settings: Settings, table: Table, snapshot_id: int | None) -> list[int]:
    """The snapshots of main after `snapshot_id` that deleted or changed rows: neither appends nor compactions."""
    metadata = lake(settings).load_table(table.name).metadata
    found = []
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        if snapshot.snapshot_id == snapshot_id:
            break
        if snapshot.summary and snapshot.summary.operation not in (Operation.APPEND, Operation.REPLACE):
            found.append(snapshot.snapshot_id)
    return found


def summary_with(settings: Settings, table: Table, name: str) -> dict[str, str]:
    """`trace_properties` of the newest snapshot on main that has the property `name`."""
    return trace_properties(settings, table.name, name)


def trace_properties(settings: Settings, table: str, name: str = PROPERTY_PREFIX) -> dict[str, str]:
    """The properties `trace.…` of the newest snapshot on main that has one whose name starts with `name`.

    Commits of Iceberg's own procedures do not have this project's properties, so its ancestors are searched.

    Args:
        settings: where the catalog is.
        table: its name without the catalog.
        name: the property, or a prefix of its name.

    Returns:
        Property name to value; empty if there is no such snapshot, or no such table.
    """
    try:
        metadata = lake(settings).load_table(table).metadata
    except NoSuchTableError:
        return {}
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if any(key.startswith(name) for key in summary):
            return {key: value for key, value in summary.items() if key.startswith(PROPERTY_PREFIX)}
    return {}
