"""A block that ends in time, whatever it waits for."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class _TimeLimitError(BaseException):
    """No `except Exception` on the way holds it up."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End the block after so many seconds. In the main thread only, as signals arrive there.

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
