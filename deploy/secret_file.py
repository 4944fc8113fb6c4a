"""Generated secrets, which never leave the machine: one file each, readable only by its owner."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def secret(file: Path, generated: str) -> str:
    """The secret in the file. On first use the file is written with `generated`, whole or not at all.

    Raises:
        OSError: it cannot be written.
        ValueError: the file is empty.
    """
    if not file.exists():
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}-") as written:
            written.write(generated)
            written.flush()
            os.fsync(written.fileno())
            with suppress(FileExistsError):
                os.link(written.name, file)
    if not (found := file.read_text()):
        raise ValueError(f"{file} is empty: remove it, and a new secret is generated")
    return found
