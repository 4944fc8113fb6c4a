"""Format values, times and untrusted text for alerts and pages."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Literal

Unit = Literal["count", "share", "minutes", "hours", "ms"]


def amount(value: float, unit: Unit) -> str:
    """A number with its unit: `48,211`, `4.5 %`, `3 h 12 min`, `12.3 h`, `45,000 ms`.

    Args:
        value: in the unit; a share is between 0 and 1.
        unit: of the value.
    """
    if not math.isfinite(value):
        return str(value)
    if unit == "share":
        return f"{_number(100 * value)} %"
    if unit == "minutes":
        return duration(timedelta(minutes=min(value, 1e9)))
    if unit == "hours":
        return f"{_number(value)} h"
    return f"{_number(value)} ms" if unit == "ms" else _number(value)


def duration(span: timedelta) -> str:
    """The two largest units of a time span: `45 s`, `3 h 12 min`, `2 d 5 h`."""
    seconds = max(0, round(span.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def utc(time: datetime) -> str:
    """A time to the minute, such as `2026-11-23 05:30 UTC`; a naive time is UTC."""
    return f"{(time.astimezone(UTC) if time.tzinfo else time):%Y-%m-%d %H:%M} UTC"


def printable(text: str, longest: int = 1000) -> str:
    """The text as one line of visible characters, truncated.

    Names of topics, groups and clients are untrusted: a line break could forge a log line or a mail header, and a
    direction mark could reverse a name.
    """
    line = " ".join(text.split())
    shown = "".join(
        char if unicodedata.category(char)[0] not in "CZ" or char == " " else f"\\u{ord(char):04x}"
        for char in line
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.1f}".removesuffix(".0")
