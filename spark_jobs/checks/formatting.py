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


def milliseconds(value: float) -> str:
    """Milliseconds as a person reads them: `0.4 ms`, `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 12 min`; negative ones too."""
    sign, value = ("-" if value < 0 else ""), abs(value)
    if value < 999.5:
        shown = f"{value:.0f} ms" if value >= 10 or value == int(value) else f"{value:.1f} ms"
    elif value < 59_950:
        shown = f"{value / 1000:.1f}".removesuffix(".0") + " s"
    elif value < 3_599_500:
        minutes, seconds = divmod(round(value / 1000), 60)
        shown = f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    else:
        shown = duration(timedelta(milliseconds=min(value, 1e14)))
    return sign + shown


def precise(time: datetime) -> str:
    """A time to the millisecond, such as `2026-11-23 05:30:00.123`; a page says once that times are UTC."""
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}"


def utc(time: datetime) -> str:
    """A time to the minute, such as `2026-11-23 05:30 UTC`; a naive time is UTC."""
    return f"{(time.astimezone(UTC) if time.tzinfo else time):%Y-%m-%d %H:%M} UTC"


def printable(text: str, longest: int = 1000) -> str:
    """The text as one line of visible characters, truncated.

    Names of topics, groups and clients are untrusted: a line break could forge a log line or a mail header, and a
    direction mark could reverse a name.
    """
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def visible(text: str) -> str:
    """The text with an escape in place of each character that cannot be seen: controls, line breaks, direction marks."""
    return "".join(
        char if unicodedata.category(char)[0] not in "CZ" or char == " " else f"\\u{ord(char):04x}"
        for char in text
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.1f}".removesuffix(".0")
