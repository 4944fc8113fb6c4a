"""What the machine did to a job, told in a last line that says where to look; the trace stands above it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

from spark_jobs.settings import Settings

_LOCKED = ("SQLITE_BUSY", "database is locked")
_FULL = ("No space left on device", "SQLITE_FULL", "database or disk is full")


def told(main: Callable[[], int]) -> int:
    """Run a job's `main`; returns its exit code, or 1 where it failed."""
    try:
        return main()
    except Exception as error:
        tell(error)
        return 1


def tell(error: Exception) -> None:
    """Print the trace of an error, and where to look if it was the machine's."""
    traceback.print_exception(error)
    if line := _line(f"{error!r} {error}"):
        print(line, file=sys.stderr, flush=True)


def _line(text: str) -> str | None:
    if not any(sign in text for sign in _LOCKED + _FULL):
        return None
    settings = Settings()
    if any(sign in text for sign in _LOCKED):
        return (
            f"failed: the catalog {settings.catalog_uri} is locked: another process held it for more than "
            f"{settings.catalog.lock_seconds} s. Nothing was lost: end that process (`fuser` names it) and run the job again"
        )
    return (
        f"failed: No space left on device, of the warehouse {settings.warehouse}, the catalog "
        f"{settings.catalog_uri} or Spark's temporary files. Nothing was lost: make room and run the job again"
    )
