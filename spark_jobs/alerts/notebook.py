"""Alerts in a file of this machine, for what must be told though the lake is away."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from spark_jobs.alerts.alert import Alert

_TIMES = ("first_failed_at", "last_seen_at", "resolved_at", "next_attempt_at")
_TUPLES = ("opened_sent_to", "resolved_sent_to")


def change(file: Path, to: Callable[[list[Alert]], list[Alert]]) -> list[Alert]:
    """Write what `to` makes of the alerts in the file; returns it. Of those that are over the last stays."""
    before = _read(file)
    after = to(before)
    if after != before:
        kept = [a for a in after if a.is_open] + [a for a in after if not a.is_open][-1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(json.dumps([asdict(alert) for alert in kept], default=datetime.isoformat))
        os.replace(new, file)
    return after


def _read(file: Path) -> list[Alert]:
    if not file.exists():
        return []
    return [
        Alert(
            **row
            | {name: datetime.fromisoformat(row[name]) for name in _TIMES if row[name]}
            | {name: tuple(row[name]) for name in _TUPLES}
        )
        for row in json.loads(file.read_text())
    ]
