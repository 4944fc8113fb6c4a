"""A store of alerts in a local file, for alerts that must be sent although the lake is unavailable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from spark_jobs.alerts.alert import Alert
from spark_jobs.process.text_file import replace_text

log = logging.getLogger(__name__)

_ALERTS = TypeAdapter(list[Alert])


def change(file: Path, to: Callable[[list[Alert]], list[Alert]]) -> list[Alert]:
    """Change the alerts in the file with `to` and return them. Of the resolved ones only the last is kept."""
    before = read(file)
    after = to(before)
    if after != before:
        write(file, [a for a in after if a.is_open] + [a for a in after if not a.is_open][-1:])
    return after


def write(file: Path, found: Sequence[Alert]) -> None:
    """Replace the alerts in the file; raises OSError."""
    replace_text(file, _ALERTS.dump_json(list(found)).decode())


def read(file: Path) -> list[Alert]:
    """The alerts in the file; none if there is no file, or if it is damaged, which is logged."""
    try:
        return _ALERTS.validate_json(file.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        log.error("%s cannot be read; its notifications may be sent again: %r", file, error)
        return []
