"""Suppress the logs of HTTP libraries while a notification is sent: addresses contain secrets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_within: list[None] = []  # one entry per thread in the block: log levels are shared by all threads
_levels: dict[str, int] = {}
_TALKATIVE = ("httpx", "httpcore", "apprise", "urllib3", "requests")


@contextmanager
def logging_suppressed() -> Iterator[None]:
    """Within the block, the libraries that send log nothing."""
    with _lock:
        _within.append(None)
        if len(_within) == 1:
            _levels.update({name: logging.getLogger(name).level for name in _TALKATIVE})
            for name in _TALKATIVE:
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        with _lock:
            _within.pop()
            if not _within:
                for name, level in _levels.items():
                    logging.getLogger(name).setLevel(level)
