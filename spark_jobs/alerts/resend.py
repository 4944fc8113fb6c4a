"""A local copy of the open alerts, so that they can be resent to Alertmanager while the lake is unavailable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter

from spark_jobs.alerts import file_store
from spark_jobs.alerts.alert import Alert
from spark_jobs.alerts.notify import remind
from spark_jobs.alerts.repeated import repeated
from spark_jobs.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenAlerts:
    """The open alerts of the lake, and when they were last sent to Alertmanager; None if unknown."""

    alerts: list[Alert]
    sent_at: datetime | None


_OPEN_ALERTS = TypeAdapter(OpenAlerts)


def file(settings: Settings) -> Path:
    return settings.home / "watchdog" / "standing.json"


def watchdog_alerts_file(settings: Settings) -> Path:
    """The file of the watchdog's alerts about itself."""
    return settings.home / "watchdog" / "alerts.json"


def last_run_file(settings: Settings) -> Path:
    """The file with the time of the watchdog's last run."""
    return settings.home / "watchdog" / "last_run"


def save(settings: Settings, alerts: Sequence[Alert], sent_at: datetime) -> None:
    """Replace the copy. If it cannot be written, that is logged and the old copy stays."""
    _save(file(settings), _OPEN_ALERTS.dump_json(OpenAlerts(list(alerts), sent_at)).decode())


def save_last_run(settings: Settings, at: datetime) -> None:
    """Save the time of the watchdog's last run; if it cannot be written, that is logged."""
    _save(last_run_file(settings), at.isoformat())


def read(settings: Settings) -> OpenAlerts:
    """The last saved copy; empty if there is no file or it is damaged."""
    try:
        return _OPEN_ALERTS.validate_json(file(settings).read_bytes())
    except FileNotFoundError:
        return OpenAlerts([], None)
    except (OSError, ValueError) as error:
        log.error("%s cannot be read, so its open alerts cannot be resent: %r", file(settings), error)
        return OpenAlerts([], None)


def resent_meanwhile(settings: Settings) -> AbstractContextManager[None]:
    """Resend the saved alerts in each interval while the block runs, as it may take longer than Alertmanager keeps them."""
    return repeated(
        lambda: remind(read(settings).alerts, settings),
        settings.alerts.interval_seconds,
        "resending the open alerts",
    )


def _save(path: Path, text: str) -> None:
    try:
        file_store.replace_text(path, text)
    except OSError as error:
        log.error("%s could not be written: %s", path, error)
