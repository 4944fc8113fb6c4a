"""`python -m tests TESTS OPTIONS…`: pytest with the options and the words of TESTS.

`tests/spark -k "glued or torn"` is split as a shell splits words, and nothing in it is expanded or run. With seconds in
TRACE_SOAK_CHAOS it is the chaos run instead, with days in TRACE_SOAK_GROWTH the run of a compressed week.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

OF_MAKE = {"MAKELEVEL", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"}
KEPT = {"TRACE_HOME", "PYTHON"}


def command(tests: str, *options: str) -> list[str]:
    """The call of pytest; raises SystemExit where a quotation in `tests` does not end."""
    try:
        return [sys.executable, "-m", "pytest", *options, *shlex.split(tests)]
    except ValueError as error:
        sys.exit(f"TESTS={tests!r} cannot be split into words: {error}")


def without_makes(given: dict[str, str], makefile: str) -> dict[str, str]:
    """Without what make adds: tests call make as a user does, whose shell has no CLUSTER=default."""
    exported = set(re.findall(r"^export (\w+) \?=", makefile, re.MULTILINE))
    return {name: value for name, value in given.items() if name not in OF_MAKE | exported - KEPT}


if __name__ == "__main__":
    if seconds := os.environ.get("TRACE_SOAK_CHAOS"):
        found = [sys.executable, "-m", "tests.chaos.run", f"--seconds={seconds}"]
    elif days := os.environ.get("TRACE_SOAK_GROWTH"):
        found = [sys.executable, "-m", "tests.growth.run", f"--days={days}"]
    else:
        found = command(*sys.argv[1:])
    os.execve(found[0], found, without_makes(dict(os.environ), Path("Makefile").read_text()))
