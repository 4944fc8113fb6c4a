"""Repeat an action in a thread while a block runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


@contextmanager
def repeated(action: Callable[[], object], seconds: float, what: str) -> Iterator[None]:
    """Call `action` repeatedly until the block ends. An exception is logged, and the next call may succeed.

    Args:
        action: the first call is after `seconds`.
        seconds: between two calls.
        what: names the action in the log.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            try:
                action()
            except Exception:
                log.exception("%s failed", what)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
