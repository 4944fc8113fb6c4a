"""The disk of the warehouse is full: a clear error, nothing published, and a whole run once there is room."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.lake.tables import RAW
from spark_jobs.settings import Settings
from tests.faults.jobs.world import CLUSTER, World

SIZE, ROOM = 16 * 1024 * 1024, 400 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with a few MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a full disk needs the right to mount a file system: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily: a reader of the catalog in this process keeps its connection until it is collected.
        subprocess.run(["umount", "-l", str(folder)], check=True)


def leave(folder: Path, room: int) -> Path:
    """Fill the disk up to `room` bytes; returns the file that does it."""
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(folder).free - room))
    assert shutil.disk_usage(folder).free <= room
    return ballast


def test_a_full_disk(world: World, small_disk: Path):
    """The tables can be made and the data files be begun, but not be ended."""
    on_disk = replace(world, settings=Settings(home=small_disk / "home", spark=world.settings.spark))
    on_disk.write(2000)
    ballast = leave(small_disk, ROOM)

    run = on_disk.run("tests.faults.jobs.again", str(ballast), "extract", "--cluster", CLUSTER)
    first, ended, second = run.output.partition("the first ended with 1\n")
    assert ended, run.output
    assert all(f"plan of {CLUSTER}: 2000 messages" in output for output in (first, second)), (
        "the first published some"
    )
    last = first.strip().splitlines()[-1]
    assert run.code == 0, run.output
    difference = on_disk.compare(RAW)
    assert difference.messages == 2000
    assert (difference.lost, difference.doubled, difference.wrong) == (0, 0, 0)
    assert "No space left on device" in last, "the error does not end with what is wrong"
    assert str(small_disk) in last
