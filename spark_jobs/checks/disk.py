"""Free space of the disks that this installation writes to. It needs neither the lake nor Spark."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter

from spark_jobs.checks.check import Measured, Run, check
from spark_jobs.process.text_file import replace_text
from spark_jobs.settings import Settings

# Number of samples kept per disk, the minimum time between two samples, and the minimum time to compute a growth, seconds.
SAMPLES = 7 * 24
SAMPLE_SECONDS = 3600.0
GROWTH_SECONDS = 3600.0
DAY = 86_400.0

# By entity: unix time and free bytes, oldest first.
History = Mapping[str, Sequence[tuple[float, int]]]
_HISTORY = TypeAdapter(dict[str, list[tuple[float, int]]])


@dataclass(frozen=True)
class Disk:
    """A file system and the folders on it.

    Attributes:
        entity: its first folder: `home`, `warehouse` or `temporary`.
        path: of that folder.
        folders: all folders on it, in words.
        free: bytes available.
        total: bytes.
        free_share: of bytes or inodes, whichever is less.
    """

    entity: str
    path: Path
    folders: tuple[str, ...]
    free: int
    total: int
    free_share: float


def disks(settings: Settings) -> list[Disk]:
    """The file systems of `TRACE_HOME`, a local warehouse and temporary files, each once."""
    folders = [("home", "TRACE_HOME", settings.home)]
    warehouse = urlsplit(settings.warehouse_uri)
    if warehouse.scheme in ("", "file"):
        folders.append(("warehouse", "the warehouse", Path(unquote(warehouse.path))))
    # Not `tempfile.gettempdir()`: it writes a file, and raises on a full disk.
    folders.append(
        ("temporary", "temporary files", Path(os.environ.get("TMPDIR") or tempfile.tempdir or "/tmp"))
    )
    found: dict[int, Disk] = {}
    for entity, words, path in folders:
        path = _existing(path)
        device = path.stat().st_dev
        if device in found:
            found[device] = replace(found[device], folders=(*found[device].folders, words))
            continue
        seen = os.statvfs(path)
        # Blocks reserved for root count neither as free nor in the total.
        total = (seen.f_blocks - seen.f_bfree + seen.f_bavail) * seen.f_frsize
        shares = [seen.f_bavail * seen.f_frsize / total if total else 1.0]
        if seen.f_files:
            shares.append(seen.f_favail / seen.f_files)
        found[device] = Disk(entity, path, (words,), seen.f_bavail * seen.f_frsize, total, min(shares))
    return list(found.values())


def measure(found: Sequence[Disk], history: History, now: datetime) -> list[Measured]:
    """Per disk: the free share, and the days until it is full at the present growth."""
    return [Measured(disk.entity, disk.free_share, _words(disk, history, now)) for disk in found]


@check(
    "installation",
    "only {value} of the disk of the {entity} is free",
    kind="freshness",
    stage="watchdog",
    limit="disk_free_share",
    fails="below",
    unit="share",
)
def disk_space(run: Run) -> Iterator[Measured]:
    """Too little of a disk is free, of the disks of `TRACE_HOME`, a local warehouse and temporary files.

    Measured per disk: the free share. It saves a sample for the growth if there is space.
    """
    found = disks(run.settings)
    file = history_file(run.settings)
    history = read_history(file)
    yield from measure(found, history, run.now)
    write_history(file, with_sample(history, found, run.now))


def days_left(disk: Disk, history: History, now: datetime) -> tuple[float, float] | None:
    """Days until the disk is full, and the days of samples that this is computed from; None if unknown or not growing."""
    known = [each for each in history.get(disk.entity, ()) if each[0] <= now.timestamp() - GROWTH_SECONDS]
    if not known:
        return None
    (time, free), *_ = known
    days = (now.timestamp() - time) / DAY
    return (disk.free / (free - disk.free) * days, days) if free > disk.free else None


def with_sample(history: History, found: Sequence[Disk], now: datetime) -> History:
    """The history with a new sample, if the last one is old enough."""
    kept = {entity: list(samples) for entity, samples in history.items()}
    for disk in found:
        # The clock may have been set back.
        samples = [each for each in kept.get(disk.entity, []) if each[0] <= now.timestamp()]
        if not samples or now.timestamp() - samples[-1][0] >= SAMPLE_SECONDS:
            samples = [*samples, (now.timestamp(), disk.free)][-SAMPLES:]
        kept[disk.entity] = samples
    return kept


def history_file(settings: Settings) -> Path:
    return settings.home / "watchdog" / "disk.json"


def read_history(file: Path) -> History:
    """The saved samples; empty if the file is missing or damaged, so that the growth is unknown."""
    try:
        return _HISTORY.validate_json(file.read_bytes())
    except (OSError, ValueError):
        return {}


def write_history(file: Path, history: History) -> None:
    """Save the samples if there is space."""
    with suppress(OSError):
        replace_text(file, json.dumps(history))


def _words(disk: Disk, history: History, now: datetime) -> str:
    names = " and ".join(filter(None, (", ".join(disk.folders[:-1]), disk.folders[-1])))
    text = (
        f"{disk.free / 1e9:.1f} GB of {disk.total / 1e9:.1f} GB are free on the disk of {names} ({disk.path})"
    )
    if disk.free and disk.free_share < disk.free / disk.total * 0.99:
        text += f", and {disk.free_share:.1%} of its inodes"
    if left := days_left(disk, history, now):
        days, sample_days = left
        text += f"; at the growth of the last {_span(sample_days)}, it is full in {_span(days)}"
    return text


def _span(days: float) -> str:
    return f"{days:.1f} days" if days >= 1 else f"{days * 24:.1f} hours"


def _existing(path: Path) -> Path:
    """The path, or its nearest parent folder that exists."""
    return next(each for each in (path, *path.parents) if each.exists())
