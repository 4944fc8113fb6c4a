"""`TRACE_HOME` is private: new files in it, and files of an earlier version."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT


@pytest.fixture(autouse=True)
def _umask():
    """As a login shell has it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(*paths: Path) -> list[int]:
    return [stat.S_IMODE(path.lstat().st_mode) for path in paths]


def test_a_new_home_and_what_children_write_there(tmp_path):
    home = tmp_path / "new" / "home"
    keep_private(home)
    subprocess.run(["sh", "-c", "mkdir folder && touch folder/file"], cwd=home, check=True)
    assert modes(home, home / "folder", home / "folder" / "file") == [0o700, 0o700, 0o600]


def test_a_home_of_an_earlier_version_is_repaired_once(tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "warehouse").mkdir(parents=True)
    data, script = home / "warehouse" / "data.parquet", home / "script"
    for file, mode in ((data, 0o644), (script, 0o755), (elsewhere, 0o644)):
        file.touch()
        file.chmod(mode)
    (home / "link").symlink_to(elsewhere)
    keep_private(home)
    assert modes(home, data.parent, data, script, elsewhere) == [0o700, 0o700, 0o600, 0o700, 0o644]
    home.chmod(0o755)
    data.chmod(0o640)  # a user wants this mode
    keep_private(home)
    assert modes(home, data) == [0o700, 0o640]


@pytest.mark.parametrize("job", ["watchdog", "extract"])
def test_a_job_closes_its_home_before_anything_else(tmp_path, job):
    home = tmp_path / "home"
    home.mkdir()
    environment = os.environ | {"TRACE_HOME": str(home), "PYTHONPATH": str(PROJECT)}
    cluster = ["--cluster", "unknown"] if job == "extract" else []
    command = [sys.executable, "-m", f"spark_jobs.jobs.{job}", *cluster]
    subprocess.run(command, env=environment, capture_output=True, check=False)
    assert modes(home, *home.rglob("*")) == [
        0o700 if path.is_dir() else 0o600 for path in (home, *home.rglob("*"))
    ]
