"""Restore a backup into a `TRACE_HOME` that has no lake.

Until the last step the home has the file `identity.UNFINISHED`, and nothing else opens its lake.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.backup import contents, copying, erasures, folder
from spark_jobs.backup.folder import Backup, BackupError, Content
from spark_jobs.backup.make import CATALOG_FILE, Progress, require_embedded
from spark_jobs.backup.relocate import SCRATCH
from spark_jobs.erasure.rules import Rule
from spark_jobs.lake import identity
from spark_jobs.settings import PROJECT, Settings


@dataclass(frozen=True)
class Restored:
    """What was restored.

    Attributes:
        backup: the contents of the backup.
        relocated: whether paths were rewritten.
        erased: the erasures that were applied again.
    """

    backup: Backup
    relocated: bool
    erased: list[Rule]


def restore(
    settings: Settings,
    root: Path,
    made: Path,
    progress: Progress,
    erase: Callable[[Settings, list[Rule]], None],
) -> Restored:
    """Put a backup into the home of the settings, which must have no lake, and apply all later erasures.

    Args:
        settings: the new home. If its warehouse is elsewhere, paths are rewritten.
        root: the folder of backups.
        made: one of its backups.
        progress: is called with bytes that were read.
        erase: erases the rules from the restored lake, completely.

    Raises:
        BackupError: a file is damaged or missing, the home has a lake, or an erasure cannot be known.
    """
    backup = folder.read(made)
    catalog, warehouse = empty_home(settings)
    is_elsewhere = str(warehouse) != backup.warehouse
    if not is_elsewhere and (settings.home, catalog) != (Path(backup.home), Path(backup.catalog)):
        raise BackupError(
            f"the backup is of TRACE_HOME {backup.home} with the catalog {backup.catalog} and its tables in {warehouse}: "
            "restore it with these settings, or set another warehouse.uri"
        )
    journals = erasures.journals(root, made, backup.lake)
    erasures.later_than(journals, backup)  # refuses a damaged journal before anything is copied
    for content in backup.files.values():
        copying.verify(folder.stored(root, content), content)
        progress(content.size)
    for name, content in backup.state.items():
        copying.verify(made / name, content)
    with identity.unfinished(settings.home, f"restore of {made}", catalog, warehouse):
        for name, content in backup.files.items():
            _copy(folder.stored(root, content), warehouse / name, content)
            progress(content.size)
        for name, content in backup.state.items():
            if name == f"home/{erasures.KNOWN}":
                continue
            target = catalog if name == CATALOG_FILE else settings.home / Path(name).relative_to("home")
            _copy(made / name, target, content)
        if is_elsewhere:
            relocate(settings, catalog, Path(backup.warehouse), warehouse)
        check(catalog)
        erasures.remember(settings.home, root, *erasures.known_folders(made / "home"))
        erased: list[Rule] = []
        # The original goes on: its erasures that begin meanwhile are recorded in the journal, too.
        while later := [rule for rule in erasures.later_than(journals, backup) if rule not in erased]:
            erase(settings, later)
            erased += later
    return Restored(backup, is_elsewhere, erased)


def empty_home(settings: Settings) -> tuple[Path, Path]:
    """The catalog's file and the folder of the tables; what an unfinished restore has left there is removed.

    Raises:
        BackupError: there is a lake, or the unfinished restore was to another place.
    """
    catalog, warehouse = require_embedded(settings)
    if begun := identity.unfinished_paths(settings.home):
        if begun != [catalog, warehouse]:
            raise BackupError(
                f"a restore to {' and '.join(map(str, begun))} was not finished, and the settings now name {catalog} and "
                f"{warehouse}: set them as they were and run it again, or remove these two and "
                f"{settings.home / identity.UNFINISHED}"
            )
        for left in (warehouse, *settings.home.glob(f"{SCRATCH}*")):
            shutil.rmtree(left, ignore_errors=True)
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{catalog}{suffix}").unlink(missing_ok=True)
    found = [
        path for path in (catalog, warehouse) if path.exists() and (path.is_file() or any(path.iterdir()))
    ]
    if found:
        raise BackupError(
            f"{' and '.join(map(str, found))} exist: a TRACE_HOME without a lake is needed. Move it away, or set "
            "another TRACE_HOME"
        )
    return catalog, warehouse


def _copy(source: Path, target: Path, content: Content) -> None:
    copied = copying.copy(source, target, content.rows)
    if copied != content:
        raise BackupError(f"{source} changed while it was copied")
    target.chmod(0o600)


def relocate(settings: Settings, catalog: Path, old: Path, new: Path) -> None:
    """Rewrite the paths, in a process of its own, which ends when this one does.

    Raises:
        BackupError: it failed.
    """
    print(
        f"rewriting the paths of the tables from {old} to {new}, which starts Spark",
        file=sys.stderr,
        flush=True,
    )
    with subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.backup.relocate"]
        + ["--catalog", str(catalog), "--old", str(old), "--new", str(new)],
        env=os.environ | {"TRACE_HOME": str(settings.home), "PYTHONPATH": str(PROJECT)},
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        # Not `communicate`: it would close the standard input, by whose end the process learns that this one has ended.
        errors = process.stderr.read() if process.stderr else ""
        failed = process.wait()
    if failed:
        raise BackupError(f"the paths of {old} could not be rewritten to {new}:\n{errors[-3000:]}")


def check(catalog: Path) -> None:
    """Look up every file that the catalog names.

    Raises:
        BackupError: one is missing.
    """
    names: set[str] = set()
    for table in contents.tables_of(catalog):
        try:
            contents.read_files(table)
        except FileNotFoundError as error:
            raise BackupError(f"{table.name}: {error}") from None
        names |= table.files.keys()
    missing = sorted(name for name in names if not os.path.exists(name))
    if missing:
        raise BackupError(f"{len(missing)} files that tables name are missing, the first is {missing[0]}")
