"""Move a lake to another `TRACE_HOME`."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.backup import copying, restore
from spark_jobs.backup.contents import named_files, tables_of
from spark_jobs.backup.folder import BackupError
from spark_jobs.backup.make import Progress, copy_state, require_embedded
from spark_jobs.lake import identity
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import Settings


def require_elsewhere(settings: Settings, to: Path) -> None:
    """Check that a lake can be moved to a folder: the old home will be deleted.

    Raises:
        BackupError: it is the home, contains it, or is in it.
    """
    home, new = settings.home.resolve(), to.resolve()
    if new == home:
        raise BackupError(f"{to} is the TRACE_HOME of this lake: give another folder")
    if new.is_relative_to(home) or home.is_relative_to(new):
        raise BackupError(
            f"one of {to} and the TRACE_HOME {settings.home} is inside of the other: give a folder beside it"
        )


def move(settings: Settings, to: Path, progress: Progress) -> int:
    """Copy the lake and the state of its home to another folder and rewrite the paths.

    The caller has checked the folder (`require_elsewhere`) and holds the locks of both. The old home stays as it is, with a file
    that says where its lake is now; nothing opens it any more. Returns the number of files of tables.

    Raises:
        BackupError: the lake is not embedded, the new home has one, or a job published during the move.
    """
    catalog, warehouse = require_embedded(settings)
    if settings.catalog.uri or settings.warehouse.uri:
        raise BackupError(
            f"catalog.uri or warehouse.uri is set ({catalog}, {warehouse}): a move takes a lake whose catalog and tables are "
            "below TRACE_HOME"
        )
    marker = settings.home / identity.MOVED
    if marker.exists() and identity.unfinished_paths(Path(marker.read_text().strip())):
        marker.unlink()  # of a move that was killed at its end
    lake(settings)  # refuses a lake that is not the one of the settings
    there = settings.model_copy(update={"home": to})
    new_catalog, new_warehouse = restore.empty_home(there)
    with identity.unfinished(to, f"move from {settings.home}", new_catalog, new_warehouse):
        copying.copy_database(catalog, new_catalog)
        files = named_files(tables_of(new_catalog), warehouse)
        moved = tables_of(new_catalog)
        for name, rows in files.items():
            content = copying.copy(warehouse / name, new_warehouse / name, rows)
            copying.verify(new_warehouse / name, content)
            progress(content.size)
        copy_state(settings.home, to, catalog, warehouse, to)
        restore.relocate(there, new_catalog, warehouse, new_warehouse)
        restore.check(new_catalog)
        marker.write_text(f"{to}\n")
        if tables_of(catalog) != moved:
            marker.unlink()
            raise BackupError(
                f"a job published to {settings.home} during the move: wait until it has ended, then run the move again"
            )
    return len(files)
