"""`python -m tests TESTS OPTIONS…`: pytest with the options and the words of TESTS.

`tests/spark -k "glued or torn"` is split as a shell splits words, and nothing in it is expanded or run.
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
    found = command(*sys.argv[1:])
    os.execv(found[0], found)
