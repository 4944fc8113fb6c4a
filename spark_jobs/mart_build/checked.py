"""Which publication of the marts the checks of the marts were evaluated for: a file below `TRACE_HOME`.

A job that is killed after its publication leaves the file of before, so the next run evaluates them.
"""

from __future__ import annotations

from pathlib import Path

from spark_jobs.settings import Settings


def mark(settings: Settings, publication_id: str) -> None:
    """Record that they were evaluated, and that readers without Spark have the publication."""
    file = _file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(publication_id)


def is_checked(settings: Settings, publication_id: str) -> bool:
    try:
        return _file(settings).read_text() == publication_id
    except FileNotFoundError:
        return False


def _file(settings: Settings) -> Path:
    return settings.home / "dbt" / "checked"
