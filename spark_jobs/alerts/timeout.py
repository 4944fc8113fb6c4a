"""A block that ends in time, whatever it waits for."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class _Rings(BaseException):
    """No `except Exception` on the way holds it up."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End the block after so many seconds. In the main thread only, as signals arrive there.

    Raises:
        TimeoutError: the block took longer.
    """

    def ring(*_: object) -> None:
        raise _Rings

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Rings:
        raise TimeoutError(f"it took more than {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
