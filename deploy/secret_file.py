"""Secrets that are made here and never leave the machine: a file each, readable by its owner alone."""

from __future__ import annotations

import os
from pathlib import Path


def secret(file: Path, made: str) -> str:
    """The secret in the file; on first use that is `made`, and the file is written."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(made)
    except FileExistsError:
        pass
    return file.read_text()
