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
        _mark(mark)
        return Missed(str(error), again)
    mark.unlink(missing_ok=True)
    return None


def missed_file(settings: Settings) -> Path:
    """It exists after a heartbeat that was not accepted."""
    return settings.home / "watchdog" / "heartbeat_missed"


def _mark(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:  # the next one counts as the first
        log.warning("%s cannot be written: %s", file, error)
