"""Make a backup while jobs run: the catalog at one moment, then every file that it names."""

from __future__ import annotations

import os
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
from spark_jobs.lake.identity import identity, local_path
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
            f"the catalog is of kind {settings.catalog.kind}, the warehouse at {settings.warehouse_uri}: backups are for a "
            "catalog in SQLite and a warehouse in a folder. For Postgres, REST and S3 see docs/backup.md, Beyond one machine"
        )
    catalog = local_path(settings.catalog_uri.removeprefix("jdbc:sqlite:"))
    if catalog is None:
        raise BackupError(f"{settings.catalog_uri} is no file")
    return Path(catalog), Path(warehouse)


def require_folder(settings: Settings, root: Path) -> None:
    """Check that backups can be in a folder.

    Raises:
        BackupError: it contains the lake or is in its home or tables, has files of others or backups of another lake, or had
            backups and is empty.
    """
    catalog, warehouse = require_embedded(settings)
    for path in (settings.home, catalog, warehouse):
        if path.resolve().is_relative_to(root.resolve()):
            raise BackupError(f"{root} contains {path}: give a folder for backups alone")
    for what, path in (("TRACE_HOME", settings.home), ("the warehouse", warehouse)):
        if root.resolve().is_relative_to(path.resolve()):
            raise BackupError(
                f"{root} is inside of {what} {path}, which it backs up: give a folder elsewhere"
            )
    others = {path.name for path in root.iterdir()} - {folder.LOCK} if root.exists() else set()
    if erasures.JOURNAL not in others and root in erasures.known_folders(settings.home):
        raise BackupError(
            f"{root} has backups of this lake, but no {erasures.JOURNAL} now, so it may not be mounted: mount it. If these "
            f"backups were deleted for good, remove it from {settings.home / erasures.KNOWN}"
        )
    if others and erasures.JOURNAL not in others:
        raise BackupError(
            f"{root} has files, but no {erasures.JOURNAL}, which every folder of backups has: give an empty folder"
        )
    for path, made in _readable(root) if catalog.exists() else ():
        if made.lake not in (None, lake_id(settings)):
            raise BackupError(
                f"{path} is a backup of another lake, of TRACE_HOME {made.home}: give each lake a folder of its own"
            )


def lake_id(settings: Settings) -> str | None:
    """The id of the lake; None before the first job.

    Raises:
        WrongLakeError: the lake is not the one of the settings.
    """
    found = identity(lake(settings))
    return found.id if found else None


def make(settings: Settings, root: Path, progress: Progress) -> tuple[Path, Backup]:
    """Copy the lake and the state of its home into a folder of backups; return the new one.

    The caller has checked the folder (`require_folder`) and holds its lock. Files that an earlier backup has are not
    copied again. If maintenance deletes a file meanwhile, the catalog is copied again: its new state does not name that
    file.

    Raises:
        BackupError: the lake is not embedded, there is none, a file is missing, or files were deleted meanwhile `ATTEMPTS`
            times.
    """
    catalog, warehouse = require_embedded(settings)
    if not catalog.exists():
        raise BackupError(f"there is no lake: {catalog} does not exist")
    lake(settings)  # refuses a lake that is not the one of the settings
    root.mkdir(parents=True, exist_ok=True)
    (root / erasures.JOURNAL).touch()
    erasures.remember(settings.home, root)
    recorded = erasures.recorded(root)
    for rule in rules_of(settings):  # they began before `root` was known
        if erasures.key_of(rule) not in recorded:
            erasures.record_in(root, rule)
    unfinished, known = root / folder.UNFINISHED, _known(root, str(warehouse))
    failures: list[tuple[str, list[Table]]] = []
    while True:
        remove_unfinished(root)
        now = datetime.now(UTC)
        # Before the catalog: one that completes meanwhile is applied again.
        complete = sorted(map(erasures.key_of, rules_of(settings, is_complete=True)))
        state = {CATALOG_FILE: copying.copy_database(catalog, unfinished / CATALOG_FILE)}
        tables = contents.tables_of(unfinished / CATALOG_FILE)
        try:
            files = {}
            for name, rows in contents.named_files(tables, warehouse).items():
                files[name] = copying.store(warehouse / name, root, rows, known.get(name))
                progress(files[name].size)
            break
        except FileNotFoundError as error:
            failures.append((str(error), contents.tables_of(unfinished / CATALOG_FILE)))
        if failures[-1] in failures[:-1]:
            raise BackupError(
                f"{failures[-1][0]}: tables need this file, and no job has changed them meanwhile, so the lake is damaged. "
                "Run a job that reads the table: its message says what to do"
            )
        if len(failures) == ATTEMPTS:
            raise BackupError(
                f"{failures[-1][0]}: files were deleted while they were copied, {ATTEMPTS} times. Run it again when "
                "maintenance has ended"
            )
    copied = copy_state(settings.home, unfinished / "home", catalog, warehouse, root)
    state |= {f"home/{name}": content for name, content in copied.items()}
    for path in (unfinished, *unfinished.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    made = Backup(
        format=folder.FORMAT,
        created_at=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        home=str(settings.home),
        catalog=str(catalog),
        warehouse=str(warehouse),
        tables={table.name: table.rows for table in tables},
        files=files,
        state=state,
        erasures=complete,
        lake=lake_id(settings),
    )
    folder.write(unfinished, made)
    target = root / f"{now:%Y-%m-%dT%H%M%S}.{now.microsecond // 1000:03d}Z"
    os.replace(unfinished, target)
    return target, made


def _readable(root: Path) -> Iterator[tuple[Path, Backup]]:
    """The complete backups of a folder, oldest first, but for damaged ones."""
    for each in folder.folders_of(root):
        with suppress(BackupError):
            yield each, folder.read(each)


def _known(root: Path, warehouse: str) -> dict[str, Content]:
    """The files of earlier backups of the same warehouse, by their path below it."""
    found: dict[str, Content] = {}
    for _, made in _readable(root):
        found |= made.files if made.warehouse == warehouse else {}
    return found


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
    """Remove what a killed backup has left; the caller holds the lock of the folder."""
    shutil.rmtree(root / folder.UNFINISHED, ignore_errors=True)


def remove_old(root: Path, keep: int) -> int:
    """Keep the newest backups, and the files that they need; return the number of backups that were removed.

    Raises:
        BackupError: one of those to keep is damaged; no file was removed.
    """
    made = folder.folders_of(root)
    needed = {folder.stored(root, file) for each in made[-keep:] for file in folder.read(each).files.values()}
    for old in made[:-keep]:
        os.replace(old, root / folder.UNFINISHED)  # from here on it is no backup
        remove_unfinished(root)
    for path in (root / folder.FILES).rglob("*"):
        if path.is_file() and path not in needed:
            path.unlink()
    return len(made[:-keep])
