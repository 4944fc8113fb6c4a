"""The folder `$TRACE_HOME/serving`: the DuckDB files of each publication, and a link to the newest.

    serving/<time of the switch>/lake.duckdb, dashboards.duckdb
    serving/current -> <time>

DuckDB names a database after its file, so the tables are `lake.marts.<name>`, as in Spark. The link is replaced by a
rename: a connection that is opened afterwards sees the new publication, an older one keeps its file.
"""

from __future__ import annotations

import os
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from spark_jobs.settings import Settings

FILE = "lake.duckdb"
# The file that the dashboards read: without user keys, and without paths of other files.
DASHBOARDS = "dashboards.duckdb"
# The columns of marts that it does not have: user keys, and what may contain one.
WITHOUT = ("keys", "tags", "sample")
CURRENT = "current"
_UNFINISHED = "building-"
_NAME = "%Y%m%dT%H%M%S.%fZ"


def folder(settings: Settings) -> Path:
    return settings.home / "serving"


def current(settings: Settings) -> Path | None:
    """The newest serving file, None before the first.

    The link is resolved: DuckDB shares one instance per path in a process, so a process that opened the link again would
    get the file that it had opened before.
    """
    file = folder(settings) / CURRENT / FILE
    return file.resolve() if file.exists() else None


def start(settings: Settings) -> Path:
    """A path for a new file, which `publish` switches to. What builds that were killed have left is removed."""
    newest = current(settings)
    left = [p for p in _published(settings) if newest is None or p.name > newest.parent.name]
    for path in (*folder(settings).glob(f"{_UNFINISHED}*"), *left):
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    path = folder(settings) / f"{_UNFINISHED}{uuid.uuid4().hex}"
    path.mkdir(parents=True)
    return path / FILE


def discard(file: Path) -> None:
    """Remove a file of `start` that is not published; what cannot be removed now, the next `start` removes."""
    shutil.rmtree(file.parent, ignore_errors=True)


def publish(settings: Settings, file: Path) -> Path:
    """Make a file of `start` read-only, and switch to it; return its new path."""
    root = folder(settings)
    for each in file.parent.iterdir():
        each.chmod(each.stat().st_mode & 0o555)
    name = _name(current(settings))
    file.parent.rename(root / name)
    link = root / f"{_UNFINISHED}{CURRENT}"
    link.symlink_to(name)
    os.replace(link, root / CURRENT)
    return root / name / FILE


def _name(newest: Path | None) -> str:
    """The time of the switch, after that of the newest file even if the clock was set back."""
    now = datetime.now(UTC)
    if newest:
        now = max(now, _switched_at(newest.parent) + timedelta(microseconds=1))
    return f"{now:{_NAME}}"


def _switched_at(path: Path) -> datetime:
    return datetime.strptime(path.name, _NAME).replace(tzinfo=UTC)


def retained(settings: Settings) -> list[Path]:
    """The files that readers may have open: the current one and those it superseded, oldest first."""
    return [path / FILE for path in _published(settings)]


def remove_superseded(settings: Settings, longer_than: timedelta = timedelta(0)) -> int:
    """Remove the files that were superseded longer ago than this; return their number."""
    newest, now, removed = current(settings), datetime.now(UTC), 0
    for path, successor in pairwise(_published(settings)):
        is_due = not longer_than or now - _switched_at(successor) >= longer_than
        if newest and path != newest.parent and is_due:
            shutil.rmtree(path)
            removed += 1
    return removed


def remove_all(settings: Settings) -> None:
    """Remove all serving files, the current one included. The folder stays: it may be a mount."""
    for path in folder(settings).glob("*"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _published(settings: Settings) -> list[Path]:
    """The folders of the files, oldest first; their names sort by time."""
    return sorted(p for p in folder(settings).glob("2*Z") if p.is_dir() and not p.is_symlink())
