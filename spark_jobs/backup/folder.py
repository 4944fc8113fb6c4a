"""The files in a folder of backups.

files/<2 digits>/<SHA-256>   files of tables, shared by the backups; named by their content, as a move or a restore
                             writes other metadata at the same path below the warehouse
<time>/catalog.db            the catalog of one backup
<time>/home/…                other files of TRACE_HOME: Airflow's database, keys and passwords, the state of alerts
<time>/backup.json           what is in it
.unfinished/                 the backup that is being made; it gets its name at the end
erasures.jsonl               the erasures since, see erasures.py
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

FORMAT = 1
MANIFEST = "backup.json"
UNFINISHED = ".unfinished"
FILES = "files"
LOCK = "backup.lock"  # held by the one backup that writes to the folder


class BackupError(RuntimeError):
    """A backup cannot be made or restored; the message says why and what to do."""


@dataclass(frozen=True)
class Content:
    """One file of a backup.

    Attributes:
        size: bytes.
        sha256: hexadecimal.
        rows: of a data file.
        modified: time of the original's last change, ns since 1970.
    """

    size: int
    sha256: str
    rows: int | None = None
    modified: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Backup:
    """What `backup.json` has.

    Attributes:
        format: of the folder.
        created_at: UTC, ISO 8601; the time of the catalog.
        home: `TRACE_HOME`.
        catalog: the file of the catalog.
        warehouse: the folder of the tables.
        tables: table or view to the number of records in its current snapshot.
        files: path below the warehouse to its content.
        state: path below `home` of the backup, and `catalog.db`, to its content.
        erasures: the erasures that were complete, see `erasures.key_of`.
        lake: the id of the lake; None in backups of an older version.
    """

    format: int
    created_at: str
    home: str
    catalog: str
    warehouse: str
    tables: dict[str, int]
    files: dict[str, Content]
    state: dict[str, Content]
    erasures: list[str]
    lake: str | None = None

    @property
    def bytes(self) -> int:
        return sum(each.size for each in (*self.files.values(), *self.state.values()))


def folders_of(root: Path) -> list[Path]:
    """The folders of complete backups, oldest first."""
    return sorted(path.parent for path in root.glob(f"[0-9]*/{MANIFEST}"))


def stored(root: Path, content: Content) -> Path:
    """Where a file of tables is."""
    return root / FILES / content.sha256[:2] / content.sha256


def chosen(root: Path, at: str | None) -> Path:
    """The folder of the newest backup, or of the newest whose time starts with `at`.

    Raises:
        BackupError: there is none, or `root` is no folder of backups.
    """
    if not root.is_dir():
        raise BackupError(f"{root} does not exist: give the folder of backups")
    if (root / MANIFEST).exists():
        raise BackupError(
            f"{root} is one backup: give its folder {root.parent}, and this backup as AT={root.name}"
        )
    found = [each for each in folders_of(root) if at is None or each.name.startswith(at)]
    if not found:
        others = ", ".join(each.name for each in folders_of(root)) or "none"
        which = f" whose name starts with {at}" if at else ""
        raise BackupError(f"{root} has no complete backup{which} (there are: {others})")
    return found[-1]


def read(folder: Path) -> Backup:
    """Read `backup.json`.

    Raises:
        BackupError: it is damaged, or of a newer format.
    """
    file = folder / MANIFEST
    try:
        found = json.loads(file.read_text())
        if found["format"] > FORMAT:
            raise BackupError(
                f"{file} has format {found['format']}: a newer version made it, restore it with that"
            )
        for part in ("files", "state"):
            found[part] = {name: Content(**each) for name, each in found[part].items()}
        return Backup(**found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackupError(
            f"{file} cannot be read ({error}): the backup is damaged. Remove its folder {folder}"
        ) from None


def write(folder: Path, backup: Backup) -> None:
    """Write `backup.json`, at once and durably."""
    scratch = folder / f"{MANIFEST}.new"
    with scratch.open("w") as out:
        json.dump(asdict(backup), out, indent=1, sort_keys=True)
        out.flush()
        os.fsync(out.fileno())
    os.replace(scratch, folder / MANIFEST)
