"""Generated secrets, which never leave the machine: one file each, readable only by its owner."""

from __future__ import annotations

import os
from pathlib import Path


def secret(file: Path, generated: str) -> str:
    """The secret in the file. On first use the file is written with `generated`."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(generated)
    except FileExistsError:
        pass
    return file.read_text()
