"""Addresses of the pages of the look-up, relative to the pages of the plugin."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

# Proxies, browsers and Airflow's frame each change other characters in a path (`/`, `..`, `?` and `%`, quoted or not): other
# ids are in the query, which all of them leave as it is.
_PLAIN = re.compile(r"(?!\.+$)[A-Za-z0-9_.~-]+")


def of_message(cluster: str, msg_id: str, of: str = "") -> str:
    """The permanent address of a message.

    Args:
        cluster: RocketMQ cluster.
        msg_id: message id.
        of: `records` for the page of its raw records.
    """
    page = f"/{of}" if of else ""
    if _PLAIN.fullmatch(msg_id) and _PLAIN.fullmatch(cluster):
        return f"/messages/{cluster}/{msg_id}{page}"
    return f"/message{page}?{urlencode({'cluster': cluster, 'msg_id': msg_id}, quote_via=quote, safe='')}"


def of_search(**conditions: str) -> str:
    """The address of a search with these fields of the form filled in; empty ones are left out."""
    given = {name.rstrip("_"): value for name, value in conditions.items() if value}
    return f"/messages?{urlencode(given, quote_via=quote, safe='')}"


def minute(time: datetime, is_end: bool = False) -> str:
    """A time, UTC, as a field of the search: to the minute before it, or after it for the end of a range."""
    rounded = time.replace(second=0, microsecond=0, tzinfo=None)
    if is_end and rounded != time.replace(tzinfo=None):
        rounded += timedelta(minutes=1)
    return f"{rounded:%Y-%m-%dT%H:%M}"
