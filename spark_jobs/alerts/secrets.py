"""Addresses hold secrets, and libraries log addresses: while something is sent they say nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_TALKATIVE = ("httpx", "httpcore", "apprise", "urllib3", "requests")


@contextmanager
def nothing_logged() -> Iterator[None]:
    """Within it the libraries that send log nothing, at no level."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
