"""How long it took to compute all rows of a model: a file below `TRACE_HOME`, for the estimate of a rebuild."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from spark_jobs.process.text_file import replace_text


def record(state: Path, seconds: dict[str, float], records: int) -> None:
    """Record how long models took, for so many records of events.

    Args:
        state: folder for everything that dbt writes.
        seconds: model to the seconds for all of its rows.
        records: the records of events.
    """
    found = _read(state) | {name: [round(value, 1), records] for name, value in seconds.items()}
    replace_text(_file(state), json.dumps(found, indent=1, sort_keys=True))


def estimate(state: Path, names: Iterable[str], records: int) -> dict[str, float]:
    """Model to the seconds that it would take for so many records, in proportion; without those that were not recorded."""
    known = _read(state)
    return {
        name: known[name][0] * records / known[name][1] for name in names if name in known and known[name][1]
    }


def _read(state: Path) -> dict[str, list[float]]:
    try:
        found: dict[str, list[float]] = json.loads(_file(state).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def _file(state: Path) -> Path:
    return state / "durations.json"
