"""End processes that this process has not started, or not directly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

POLL_SECONDS = 0.1


def end_all(running: Callable[[], list[int]], signals: Mapping[int, float]) -> list[int]:
    """Signal the processes until none runs, also those that start meanwhile; return those that still run.

    Args:
        running: finds the pids of the processes that still run.
        signals: signal to the seconds that the processes have after it, in the order of sending; 0 only waits.
    """
    for number, seconds in signals.items():
        until = time.monotonic() + seconds
        while (left := running()) and time.monotonic() < until:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(POLL_SECONDS)
    return left
