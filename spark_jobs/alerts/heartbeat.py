"""The heartbeat: a GET of `alerts.heartbeat_url`, a dead man's switch outside this machine."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.alerts.sinks.http import DeliveryError, request
from spark_jobs.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Missed:
    """The dead man's switch did not accept a heartbeat.

    Attributes:
        why: without the address.
        again: it had not accepted the one before it.
    """

    why: str
    again: bool


def send(settings: Settings) -> Missed | None:
    """Send a heartbeat; None if it was accepted, or if no `alerts.heartbeat_url` is set."""
    if settings.alerts.heartbeat_url is None:
        return None
    mark = missed_file(settings)
    try:
        request("GET", settings.alerts.heartbeat_url)
    except DeliveryError as error:
        again = mark.exists()
        _save(mark, is_missed=True)
        return Missed(str(error), again)
    _save(mark, is_missed=False)
    return None


def missed_file(settings: Settings) -> Path:
    """It exists after a heartbeat that was not accepted."""
    return settings.home / "watchdog" / "heartbeat_missed"


def _save(file: Path, is_missed: bool) -> None:
    """If that fails, it is logged: the alerts are still to be sent."""
    try:
        if is_missed:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be written: %s", file, error)
