"""`TRACE_HOME` is its owner's alone: keys of messages are in the tables, and what authenticates users is beside them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

UMASK = 0o077
# Is there when the files of earlier versions, which others could read, were repaired.
_REPAIRED = ".private"


def keep_private(home: Path) -> None:
    """Create the folder, or close it to others; what this process and its children create is closed, too.

    Call it once, where a process starts: it sets the umask. Spark's JVM and Airflow's components inherit that.

    Args:
        home: `Settings.home`. One of an earlier version is repaired, once, with all that is in it.

    Raises:
        OSError: the folder cannot be created.
    """
    os.umask(UMASK)
    home.mkdir(parents=True, exist_ok=True)
    if not (home / _REPAIRED).exists():
        for path in (home, *_below(home)):
            with suppress(FileNotFoundError):  # another process may work there
                _close(path)
        (home / _REPAIRED).touch()
    _close(home)


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):  # into no link
        yield from (Path(parent, name) for name in (*folders, *files))


def _close(path: Path) -> None:
    mode = stat.S_IMODE(path.lstat().st_mode)
    if path.is_symlink() or not mode & UMASK:
        return
    try:
        path.chmod(mode & ~UMASK)
    except PermissionError:
        log.warning("%s can be read by other users (mode %o), and this user may not change that", path, mode)
