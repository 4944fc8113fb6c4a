"""The catalog `lake` through pyiceberg, without Spark: snapshot properties, and tables that are small."""

from __future__ import annotations

from collections.abc import Callable

import pyiceberg.table
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.exceptions import ValidationError as InvalidMetadataError
from pyiceberg.table.snapshots import Operation, ancestors_of
from sqlalchemy import make_url
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from spark_jobs.lake import identity
from spark_jobs.lake.damaged_files import DamagedTableError, damaged_file
from spark_jobs.lake.tables import Table
from spark_jobs.settings import CATALOG, Settings

PROPERTY_PREFIX = "trace."  # the prefix of this project's snapshot properties


def lake(settings: Settings) -> Catalog:
    """The same catalog that the Spark sessions call `lake`.

    Raises:
        WrongLakeError: it is not the lake that the settings mean.
    """
    kind = {"jdbc": "sql", "rest": "rest"}[settings.catalog.type]
    uri = settings.catalog_uri.removeprefix("jdbc:")
    if uri.startswith("sqlite:") and not uri.startswith("sqlite:///"):
        uri = f"sqlite:///{uri.removeprefix('sqlite:')}?timeout={settings.catalog.lock_seconds}"
    elif kind == "sql" and (credentials := settings.catalog.credentials()):
        # SQLAlchemy would take another driver for Postgres than the one that is installed.
        url = make_url(uri.replace("postgresql:", "postgresql+psycopg2:", 1))
        user, password = credentials
        uri = url.set(username=user, password=password).render_as_string(hide_password=False)
    which = {"type": "rest"} if kind == "rest" else {"py-catalog-impl": f"{__name__}.{SqlLake.__name__}"}
    catalog = load_catalog(CATALOG, **which, uri=uri, warehouse=settings.warehouse)
    identity.verify(settings, catalog)
    return catalog


class SqlLake(SqlCatalog):
    """pyiceberg's SQL catalog, with errors that name the table and the metadata file."""

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> pyiceberg.table.Table:
        # Not public, but every load of a table passes here, and only here the metadata file is known.
        try:
            return super()._convert_orm_to_iceberg(orm_table)
        except (InvalidMetadataError, ValueError, FileNotFoundError) as error:
            table = f"{orm_table.table_namespace}.{orm_table.table_name}"
            why = " ".join(str(error).split())[:200]
            what = damaged_file(table, orm_table.metadata_location or "")
            raise DamagedTableError(f"{what} ({type(error).__name__}: {why})") from error


def retry_commit() -> Retrying:
    """Retry a pyiceberg commit that conflicted with another writer; load the table again in each attempt."""
    return Retrying(
        retry=retry_if_exception_type((CommitFailedException, ValidationException)),
        stop=stop_after_attempt(10),
        wait=wait_random(0.05, 0.5),
        reraise=True,
    )


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
    """`newest_summary` of one of the tables that the jobs write."""
    return newest_summary(settings, table.name, name)


def newest_summary(settings: Settings, table_name: str, name: str) -> dict[str, str]:
    """The summary of the newest snapshot on main that carries the property `name`; empty if none does."""
    try:
        metadata = lake(settings).load_table(table_name)
    except NoSuchTableError:
        return {}
    return _newest_summary(metadata, lambda summary: name in summary)


def trace_properties(settings: Settings, table: str) -> dict[str, str]:
    """The properties `trace.…` of the newest snapshot on main that has any; empty if none has.

    Args:
        settings: where the catalog is.
        table: its name without the catalog.
    """
    metadata = lake(settings).load_table(table)
    summary = _newest_summary(metadata, lambda found: any(name.startswith(PROPERTY_PREFIX) for name in found))
    return {name: value for name, value in summary.items() if name.startswith(PROPERTY_PREFIX)}


def _newest_summary(
    metadata: pyiceberg.table.Table, wanted: Callable[[dict[str, str]], bool]
) -> dict[str, str]:
    """Search the ancestors of main: commits of Iceberg's own procedures do not carry this project's properties."""
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        if snapshot.summary is not None and wanted(snapshot.summary.additional_properties):
            return snapshot.summary.additional_properties
        parent = snapshot.parent_snapshot_id
        snapshot = metadata.snapshot_by_id(parent) if parent is not None else None
    return {}
