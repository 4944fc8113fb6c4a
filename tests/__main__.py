"""`python -m tests TESTS OPTIONS…`: pytest with the options and the words of TESTS.

`tests/spark -k "glued or torn"` is split as a shell splits words, and nothing in it is expanded or run. With seconds in
TRACE_SOAK_CHAOS it is the chaos run instead, with days in TRACE_SOAK_GROWTH the run of a compressed week.
"""

from __future__ import annotations

import os
import shlex
import sys


def command(tests: str, *options: str) -> list[str]:
    """The call of pytest; raises SystemExit where a quotation in `tests` does not end."""
    try:
        return [sys.executable, "-m", "pytest", *options, *shlex.split(tests)]
    except ValueError as error:
        sys.exit(f"TESTS={tests!r} cannot be split into words: {error}")


if __name__ == "__main__":
    if seconds := os.environ.get("TRACE_SOAK_CHAOS"):
        found = [sys.executable, "-m", "tests.chaos.run", f"--seconds={seconds}"]
    elif days := os.environ.get("TRACE_SOAK_GROWTH"):
        found = [sys.executable, "-m", "tests.growth.run", f"--days={days}"]
    else:
        found = command(*sys.argv[1:])
    os.execv(found[0], found)
