"""Verify that the opened catalog is the lake of the settings; works without Spark.

Tables have absolute locations, so the catalog of a copied lake still references the files of the original: maintenance
of the copy would delete them, and a commit would change them. `spark_jobs.lake.catalog.lake` and
`spark_jobs.lake.session.session`, by which every job opens the lake, verify it first:

- The locations of all tables and views must be below the configured warehouse, if both are local files. Links are
  resolved first, so a lake that was moved and is linked from its old path passes.
- The identity in the catalog (a property of its namespace `ops`) must match the catalog and warehouse of the settings.
  If the catalog is not a SQLite file, its id must also match the one that was recorded in `$TRACE_HOME/lake.json` on
  first use, or the setting `catalog.lake_id`.
"""

from __future__ import annotations

import gzip
import json
import os
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchNamespaceError
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from spark_jobs.lake import lake_format
from spark_jobs.lake.deployment import catalog_address
from spark_jobs.settings import CATALOG, Settings

NAMESPACE = "ops"
PROPERTY = "trace.lake"
RECORD = "lake.json"  # below TRACE_HOME
UNFINISHED = "restore-unfinished"  # below TRACE_HOME: a restore or move to it has not ended
_LOCATIONS = ("write.data.path", "write.metadata.path", "write.object-storage.path")
_HOW = "See docs/maintenance.md, Move or copy a lake"
MOVED = "moved-to"  # below TRACE_HOME: the lake is elsewhere
_verified: set[tuple[str | None, ...]] = set()
_restoring: set[Path] = set()


class WrongLakeError(ValueError):
    """The catalog is not the lake of the settings; nothing was read or written."""


@dataclass(frozen=True)
class Identity:
    """The identity of a lake, stored in its catalog when the first job opens it.

    Attributes:
        id: a random id.
        catalog: address of the catalog at that time, without credentials.
        warehouse: the configured warehouse at that time.
    """

    id: str
    catalog: str
    warehouse: str


def verify(settings: Settings, catalog: Catalog) -> None:
    """Compare the opened catalog with the settings, once per process and settings.

    Raises:
        WrongLakeError: they do not match; the message says what to do.
        NewerLakeError: a newer version wrote the lake.
    """
    raise_if_not_in_home(settings)
    catalog_key = (settings.catalog.kind, settings.catalog_uri, settings.catalog.lake_id)
    key = (str(settings.home), settings.warehouse_uri, *catalog_key)
    if key in _verified:
        return
    if isinstance(catalog, SqlCatalog) and (warehouse := local_path(settings.warehouse_uri)):
        _compare_locations(settings, catalog, os.path.realpath(warehouse))
    found = identity(catalog)
    if found is not None:
        _compare(settings, found)
    elif expected := _expected_id(settings):
        raise WrongLakeError(
            f"the catalog {catalog_address(settings)} contains no lake, but lake {expected} is expected there. Set "
            "TRACE_CATALOG__URI to the catalog of that lake. To start a new lake instead, use another TRACE_HOME, or "
            f"remove {settings.home / RECORD} and the setting catalog.lake_id. {_HOW}"
        )
    lake_format.verify(catalog)
    if found is not None:
        _record(settings, found)
        _verified.add(key)


def raise_if_not_in_home(settings: Settings) -> None:
    """Refuse a home whose lake is elsewhere, or not there to the end.

    Raises:
        WrongLakeError: it was moved, or a restore or move to it did not end; the message says what to do.
    """
    marker = settings.home / UNFINISHED
    if marker.exists() and settings.home not in _restoring:
        raise WrongLakeError(
            f"a {marker.read_text().splitlines()[0]} to {settings.home} goes on, or did not end: run it again. See docs/backup.md"
        )
    if (moved := settings.home / MOVED).exists():
        to = moved.read_text().strip()
        if unfinished_paths(Path(to)):
            raise WrongLakeError(
                f"a move to {to} did not end: run `make move TO={to}` again. See docs/backup.md"
            )
        raise WrongLakeError(
            f"the lake of {settings.home} was moved to {to}: set TRACE_HOME to that, and delete this folder when you have seen "
            "the lake there. See docs/backup.md"
        )


@contextmanager
def unfinished(home: Path, what: str, *paths: Path) -> Iterator[None]:
    """Within the block, and after it if it fails, only this process opens the lake of a home, which is at these paths."""
    home.mkdir(parents=True, exist_ok=True)
    (home / UNFINISHED).write_text("".join(f"{line}\n" for line in (what, *paths)))
    _restoring.add(home)
    try:
        yield
        (home / UNFINISHED).unlink()
    finally:
        _restoring.discard(home)


def unfinished_paths(home: Path) -> list[Path]:
    """The paths of a lake that was not restored to the end; none if there is no such lake."""
    marker = home / UNFINISHED
    return [Path(line) for line in marker.read_text().splitlines()[1:]] if marker.exists() else []


def claim(settings: Settings, catalog: Catalog) -> None:
    """Store an identity in a catalog that has none; of two concurrent processes one stores it.

    Args:
        settings: the settings with catalog and warehouse.
        catalog: a catalog that `verify` accepted.
    """
    if identity(catalog) is None:
        _insert(catalog, Identity(uuid.uuid4().hex, catalog_address(settings), _warehouse(settings)))
    verify(settings, catalog)


def identity(catalog: Catalog) -> Identity | None:
    """The identity in the catalog; None before the first job."""
    try:
        properties = catalog.load_namespace_properties(NAMESPACE)
    except NoSuchNamespaceError:
        return None
    return Identity(**json.loads(properties[PROPERTY])) if PROPERTY in properties else None


def _insert(catalog: Catalog, new: Identity) -> None:
    properties = {PROPERTY: json.dumps(asdict(new)), lake_format.PROPERTY: str(lake_format.FORMAT)}
    if not isinstance(catalog, SqlCatalog):
        # Of two concurrent processes one creates it; an update would replace the identity of the other one.
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(NAMESPACE, properties)
        if identity(catalog) is None:
            catalog.update_namespace_properties(NAMESPACE, updates=properties)
        return
    try:
        # Insert, because an update would replace the identity of a concurrent process.
        with Session(catalog.engine) as database:
            database.add_all(
                IcebergNamespaceProperties(
                    catalog_name=CATALOG, namespace=NAMESPACE, property_key=key, property_value=value
                )
                for key, value in properties.items()
            )
            database.commit()
    except IntegrityError:
        pass  # a concurrent process has stored one


def _compare(settings: Settings, found: Identity) -> None:
    expected = _expected_id(settings)
    if expected not in (None, found.id):
        raise WrongLakeError(
            f"the catalog {catalog_address(settings)} contains lake {found.id}, but lake {expected} is expected there "
            f"({'setting catalog.lake_id' if settings.catalog.lake_id else settings.home / RECORD}). Set "
            "TRACE_CATALOG__URI to the catalog of that lake, or use another TRACE_HOME for this one. " + _HOW
        )
    if not _same(found.warehouse, _warehouse(settings)):
        raise WrongLakeError(
            f"lake {found.id} belongs to the warehouse {found.warehouse}, but the settings name {_warehouse(settings)}. "
            f"{_advice(settings, found.warehouse)} {_HOW}"
        )
    if not _same(found.catalog, catalog_address(settings)) and not _is_confirmed(settings, found):
        raise WrongLakeError(
            f"the catalog {catalog_address(settings)} is a copy of {found.catalog}, or its address has changed. In a copy the "
            f"jobs would change and delete the files of the original. {_advice(settings, found.catalog, found.id)} {_HOW}"
        )


def _compare_locations(settings: Settings, catalog: SqlCatalog, warehouse: str) -> None:
    for name, location in _locations(catalog):
        path = local_path(location)
        if path is None or not f"{os.path.realpath(path)}/".startswith(f"{warehouse.rstrip('/')}/"):
            raise WrongLakeError(
                f"{name} is at {location}, outside of the configured warehouse {settings.warehouse_uri}: this is a copy of "
                "another lake, or a lake that was moved. In a copy the jobs would change and delete the files of the "
                f"original. {_advice(settings, location)} {_HOW}"
            )


def _locations(catalog: SqlCatalog) -> Iterator[tuple[str, str]]:
    """Name and folder, for each folder of a table or view in which a job would read, write or delete files.

    If the metadata file cannot be read, only its own folder is known; no job can open such a table.
    """
    for name, file in metadata_files(catalog):
        metadata = read_metadata(local_path(file) or "") or {}
        properties = metadata.get("properties") or {}
        folders = {
            os.path.dirname(file),
            metadata.get("location"),
            *(properties.get(key) for key in _LOCATIONS),
            *(os.path.dirname(each["manifest-list"]) for each in metadata.get("snapshots") or []),
        }
        for folder in sorted(filter(None, folders)):
            yield name, folder


def metadata_files(catalog: SqlCatalog) -> list[tuple[str, str]]:
    """(`<namespace>.<name>`, location of the metadata file) of each table and view of the catalog."""
    columns = (IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location)
    with Session(catalog.engine) as database:
        rows = database.execute(select(*columns).where(IcebergTables.catalog_name == CATALOG)).all()
    return [(f"{namespace}.{name}", file) for namespace, name, file in rows if file is not None]


def read_metadata(path: str) -> dict[str, Any] | None:
    """The content of a local metadata file; None if it is missing or damaged."""
    try:
        with gzip.open(path) if path.endswith(".gz.metadata.json") else open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError, EOFError, zlib.error):
        return None
    return found if isinstance(found, dict) else None


def local_path(location: str) -> str | None:
    """The path of a local location, read as Iceberg does (no URL decoding); None for any other location."""
    if location.startswith("/"):
        return location
    if not location.startswith("file:/"):
        return None
    return "/" + location.removeprefix("file:").lstrip("/")


def _is_file(settings: Settings) -> bool:
    return settings.catalog.kind == "sqlite"


def _warehouse(settings: Settings) -> str:
    """The configured warehouse; empty for a REST catalog that has its own."""
    return settings.catalog.warehouse or "" if settings.catalog.kind == "rest" else settings.warehouse_uri


def _same(one: str, other: str) -> bool:
    """Whether two addresses or warehouses are the same; paths are resolved."""
    if one.rstrip("/") == other.rstrip("/"):
        return True
    files = [local_path(each.removeprefix("jdbc:sqlite:")) for each in (one, other)]
    first, second = (os.path.realpath(file) if file else None for file in files)
    return first is not None and first == second


def _expected_id(settings: Settings) -> str | None:
    if settings.catalog.lake_id:
        return settings.catalog.lake_id
    recorded = _recorded(settings)
    return recorded.id if recorded else None


def _is_confirmed(settings: Settings, found: Identity) -> bool:
    """Whether a person has confirmed, now or before, that a catalog with a new address is not a copy."""
    if _is_file(settings):
        return False
    recorded = _recorded(settings)
    return settings.catalog.lake_id == found.id or (
        recorded is not None and recorded.catalog == catalog_address(settings)
    )


def _recorded(settings: Settings) -> Identity | None:
    """The identity that was recorded on first use; None for a SQLite file, whose path is in the settings."""
    if _is_file(settings):
        return None
    file = settings.home / RECORD
    try:
        return Identity(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise WrongLakeError(
            f"{file} cannot be read ({error}): it records the lake of this home. Restore it, or remove it and "
            f"set TRACE_CATALOG__LAKE_ID once. {_HOW}"
        ) from None


def _record(settings: Settings, found: Identity) -> None:
    new = Identity(found.id, catalog_address(settings), found.warehouse)
    if _is_file(settings) or _recorded(settings) == new:
        return
    settings.home.mkdir(parents=True, exist_ok=True)
    file = settings.home / RECORD
    scratch = file.with_name(f"{RECORD}.{os.getpid()}.new")
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(asdict(new), out)
    os.replace(scratch, file)


def _advice(settings: Settings, before: str, lake_id: str = "") -> str:
    """What to do if the settings and the lake have different addresses; `before` is the one in the lake."""
    path = local_path(before.removeprefix("jdbc:sqlite:"))
    if path is None:
        if not lake_id:
            return "Set TRACE_WAREHOUSE__URI to the first one: the tables stay where they were created."
        return f"If it is not a copy, confirm that once with TRACE_CATALOG__LAKE_ID={lake_id}."
    if os.path.exists(path):
        return "Use the original's TRACE_HOME, and remove the copy."
    return f"If the lake was moved by hand, move it back or mount it at its first path; `make move TO={settings.home}` moves it."
