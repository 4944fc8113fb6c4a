"""A generated secret is in its file whole, or the file does not exist."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from deploy.secret_file import secret


def test_it_is_generated_once_and_only_its_owner_reads_it(tmp_path):
    file = tmp_path / "key"
    assert secret(file, "first") == "first"
    assert secret(file, "second") == "first"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_a_write_that_fails_leaves_no_file_and_the_next_one_generates_it(tmp_path):
    """A limit of the size of files stands for a full disk."""
    file = tmp_path / "key"
    program = f"from pathlib import Path; from deploy.secret_file import secret; secret(Path({str(file)!r}), 'x' * 10)"
    failed = subprocess.run(
        [sys.executable, "-B", "-c", program],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5)),
        capture_output=True,
        text=True,
    )
    assert "File too large" in failed.stderr
    assert [*tmp_path.iterdir()] == []
    assert secret(file, "again") == "again"


def test_an_empty_file_is_no_secret(tmp_path):
    (tmp_path / "key").touch()
    with pytest.raises(ValueError, match="key is empty: remove it"):
        secret(tmp_path / "key", "new")
