"""A time limit for a block, whatever it waits for."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class _TimeLimitError(BaseException):
    """A BaseException, so that no `except Exception` catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End the block after this many seconds. Main thread only, as it uses a signal.

    Raises:
        TimeoutError: the block took longer.
    """

    def ring(*_: object) -> None:
        raise _TimeLimitError

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TimeLimitError:
        raise TimeoutError(f"it took more than {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
