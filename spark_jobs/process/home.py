"""Keep `TRACE_HOME` private to its owner: its tables contain message keys, and it contains credentials."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

UMASK = 0o077
LOCK = "home.lock"  # held by a command that uses the folder alone
# Marks that the file modes of earlier versions, which others could read, were repaired.
_REPAIRED = ".private"


def keep_private(home: Path) -> None:
    """Create the folder with mode 0700, and set the umask so that new files are private too.

    Call it once at the start of a process: Spark's JVM and Airflow's components inherit the umask.

    Args:
        home: `Settings.home`. A folder of an earlier version is repaired once, with all files in it.

    Raises:
        OSError: the folder cannot be created.
    """
    os.umask(UMASK)
    home.mkdir(parents=True, exist_ok=True)
    if not (home / _REPAIRED).exists():
        for path in (home, *_below(home)):
            with suppress(FileNotFoundError):  # another process may delete it meanwhile
                _close(path)
        (home / _REPAIRED).touch()
    _close(home)


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):  # does not follow links
        yield from (Path(parent, name) for name in (*folders, *files))


def _close(path: Path) -> None:
    mode = stat.S_IMODE(path.lstat().st_mode)
    if path.is_symlink() or not mode & UMASK:
        return
    try:
        path.chmod(mode & ~UMASK)
    except PermissionError:
        log.warning("%s can be read by other users (mode %o), and this user may not change that", path, mode)
