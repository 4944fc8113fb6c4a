"""Make a back-up while jobs run: the catalog at one moment, then every file that it names."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.backup import contents, copying, erasures, folder
from spark_jobs.backup.contents import Table
from spark_jobs.backup.folder import Backup, BackupError, Content
from spark_jobs.erasure.rules import rules_of
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.identity import local_path
from spark_jobs.settings import Settings

CATALOG_FILE = "catalog.db"
ATTEMPTS = 5
# Folders of TRACE_HOME that are written again, or are somebody else's.
_LEFT_OUT = {"serving", "dbt", "logs", "bench", "sandbox", "demo", "spark-warehouse", "metastore_db"}
_LEFT_OUT_OF_AIRFLOW = {"logs", "components", "up.json", "dags"}
Progress = Callable[[int], None]  # bytes that were read


def require_embedded(settings: Settings) -> tuple[Path, Path]:
    """The catalog's file and the folder of the tables of an embedded lake.

    Raises:
        BackupError: the catalog is not in SQLite, or the warehouse is not a folder.
    """
    warehouse = local_path(settings.warehouse_uri)
    if settings.catalog.kind != "sqlite" or warehouse is None:
        raise BackupError(
            f"the catalog is of kind {settings.catalog.kind}, the warehouse at {settings.warehouse_uri}: back-ups are for a "
            "catalog in SQLite and a warehouse in a folder. For Postgres, REST and S3 see docs/backup.md, Beyond one machine"
        )
    catalog = local_path(settings.catalog_uri.removeprefix("jdbc:sqlite:"))
    if catalog is None:
        raise BackupError(f"{settings.catalog_uri} is no file")
    return Path(catalog), Path(warehouse)


def make(settings: Settings, root: Path, progress: Progress) -> tuple[Path, Backup]:
    """Copy the lake and the state of its home into a folder of back-ups; return the new one.

    Files that an earlier back-up has are not copied again. If maintenance deletes a file meanwhile, the catalog is copied
    again: its new state does not name that file.

    Raises:
        BackupError: the lake is not embedded, there is none, or its files were deleted meanwhile `ATTEMPTS` times.
    """
    catalog, warehouse = require_embedded(settings)
    if not catalog.exists():
        raise BackupError(f"there is no lake: {catalog} does not exist")
    lake(settings)  # refuses a lake that is not the one of the settings
    root.mkdir(parents=True, exist_ok=True)
    if root.resolve().is_relative_to(warehouse.resolve()):
        raise BackupError(f"{root} is inside of the warehouse {warehouse}")
    erasures.remember(settings.home, root)
    for rule in rules_of(settings, is_complete=False):  # they began before `root` was known
        erasures.record_in(root, rule)
    known = {
        name: content for made in folder.folders_of(root) for name, content in folder.read(made).files.items()
    }
    for _ in range(ATTEMPTS):
        now = datetime.now(UTC)
        target = root / f"{now:%Y-%m-%dT%H%M%S}.{now.microsecond // 1000:03d}Z"
        # Before the catalog: one that completes meanwhile is applied again.
        complete = sorted(map(erasures.key_of, rules_of(settings, is_complete=True)))
        state = {CATALOG_FILE: copying.copy_database(catalog, target / CATALOG_FILE)}
        try:
            tables, files = copy_files(target / CATALOG_FILE, warehouse, root / "files", known, progress)
            break
        except FileNotFoundError as error:
            missing = error
            shutil.rmtree(target)
    else:
        raise BackupError(
            f"{missing.filename} was deleted while it was copied, {ATTEMPTS} times: run it again when maintenance has ended"
        )
    copied = copy_state(settings.home, target / "home", catalog, warehouse, root)
    state |= {f"home/{name}": content for name, content in copied.items()}
    for path in (target, *target.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    counts = {table.name: table.rows for table in tables}
    made = Backup(
        folder.FORMAT,
        f"{now:%Y-%m-%dT%H:%M:%SZ}",
        str(settings.home),
        str(warehouse),
        counts,
        files,
        state,
        complete,
    )
    folder.write(target, made)
    return target, made


def copy_files(
    catalog: Path, warehouse: Path, target: Path, known: dict[str, Content], progress: Progress
) -> tuple[list[Table], dict[str, Content]]:
    """Copy what the catalog names; then every copy is read."""
    tables, files = contents.tables_of(catalog), dict[str, Content]()
    for table in tables:
        contents.read_files(table)
        for path, rows in table.files.items():
            if not Path(path).is_relative_to(warehouse):
                raise BackupError(
                    f"{table.name} names {path}, which is not below {warehouse}: set TRACE_HOME to the path at which the lake "
                    "was created"
                )
            name = str(Path(path).relative_to(warehouse))
            if name in files:
                continue
            copied, before = target / name, known.get(name)
            if before and copied.exists() and copied.stat().st_size == Path(path).stat().st_size:
                files[name] = before
            else:
                files[name] = copying.copy(Path(path), copied, rows)
            copying.verify(copied, files[name])
            progress(files[name].size)
    return tables, files


def copy_state(home: Path, to: Path, *left_out: Path) -> dict[str, Content]:
    """Copy the other files of a home; a database as it is at one moment. Files that are deleted meanwhile are left out."""
    found = {}
    for name in _state_of(home, *left_out):
        with suppress(FileNotFoundError):
            copy = copying.copy_database if copying.is_database(home / name) else copying.copy
            found[name] = copy(home / name, to / name)
    return found


def _state_of(home: Path, *left_out: Path) -> Iterator[str]:
    """The files of a home that a restore needs beside the catalog and the tables, by their path below it."""
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home)
        is_left_out = (
            name.parts[0] in _LEFT_OUT
            or (name.parts[0] == "airflow" and len(name.parts) > 1 and name.parts[1] in _LEFT_OUT_OF_AIRFLOW)
            or path.suffix in (".lock", ".new", ".log")
            or path.name.endswith(("-wal", "-shm", "-journal"))
            or any(path.is_relative_to(other) for other in left_out)
        )
        if not is_left_out and path.is_file() and not path.is_symlink():
            yield str(name)


def remove_unfinished(root: Path) -> None:
    """Remove what killed back-ups have left; the caller holds the lock of the folder."""
    for catalog in root.glob(f"*/{CATALOG_FILE}"):
        if not (catalog.parent / folder.MANIFEST).exists():
            shutil.rmtree(catalog.parent)


def remove_old(root: Path, keep: int) -> int:
    """Keep the newest back-ups, and the files that they name; return the number of back-ups that were removed."""
    made = folder.folders_of(root)
    for old in made[:-keep]:
        (old / folder.MANIFEST).unlink()  # first: what is left is no back-up
        shutil.rmtree(old)
    needed = {name for each in made[-keep:] for name in folder.read(each).files}
    for path in (root / "files").rglob("*"):
        if path.is_file() and str(path.relative_to(root / "files")) not in needed:
            path.unlink()
    return len(made[:-keep])
