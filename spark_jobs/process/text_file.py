"""Files that other processes may read and replace at the same time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def replace_text(file: Path, text: str) -> None:
    """Replace the content of a file atomically. Several processes may do so at the same time; the last one wins.

    Raises:
        OSError: it could not be written; the old content is kept.
    """
    new = file.with_suffix(f".{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text)
        os.replace(new, file)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
