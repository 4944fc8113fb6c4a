"""A store of alerts in a local file, for alerts that must be sent although the lake is unavailable."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from spark_jobs.alerts.alert import Alert

log = logging.getLogger(__name__)

_TIMES = ("first_failed_at", "last_seen_at", "resolved_at", "next_attempt_at")
_TUPLES = ("opened_sent_to", "resolved_sent_to")


def change(file: Path, to: Callable[[list[Alert]], list[Alert]]) -> list[Alert]:
    """Change the alerts in the file with `to` and return them. Of the resolved ones only the last is kept."""
    before = read(file)
    after = to(before)
    if after != before:
        write(file, [a for a in after if a.is_open] + [a for a in after if not a.is_open][-1:])
    return after


def write(file: Path, found: Sequence[Alert]) -> None:
    """Replace the alerts in the file; raises OSError."""
    replace_text(file, json.dumps(rows(found)))


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


def read(file: Path) -> list[Alert]:
    """The alerts in the file; none if there is no file, or if it is damaged, which is logged."""
    try:
        return alerts(json.loads(file.read_text()))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.error("%s cannot be read; its notifications may be sent again: %r", file, error)
        return []


def rows(found: Sequence[Alert]) -> list[dict[str, object]]:
    """The alerts as JSON objects."""
    return json.loads(json.dumps([asdict(alert) for alert in found], default=datetime.isoformat))


def alerts(found: Iterable[dict[str, object]]) -> list[Alert]:
    """The alerts of `rows`; raises ValueError, TypeError, KeyError or AttributeError."""
    return [_alert(row) for row in found]


def _alert(row: dict[str, object]) -> Alert:
    times = {name: datetime.fromisoformat(str(row[name])) for name in _TIMES if row[name]}
    return Alert(**row | times | {name: tuple(row[name]) for name in _TUPLES})  # type: ignore[arg-type]
