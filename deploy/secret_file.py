"""Generated secrets, which never leave the machine: one file each, readable only by its owner."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def secret(file: Path, generated: str) -> str:
    """The secret in the file. On first use the file is written with `generated`."""
    with suppress(FileExistsError):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w") as out:
            out.write(generated)
    return file.read_text()
