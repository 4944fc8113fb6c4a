"""`python -m benchmarks.cpu COMMAND …` runs a command, and prints the CPU seconds of all its processes as the last line.

Processes that outlive their parent, as Python workers of Spark may, become children of this one (PR_SET_CHILD_SUBREAPER), so
they are counted when they have ended.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36


class CommandFailedError(RuntimeError):
    """A measured command failed; the text ends with its output."""


def seconds_of(command: Sequence[str], environment: Mapping[str, str], code: int = 0) -> tuple[float, str]:
    """Run a command; its CPU seconds, and what it printed on standard output.

    Raises:
        CommandFailedError: its exit code is not `code`.
    """
    measured = [sys.executable, "-m", "benchmarks.cpu", *command]
    done = subprocess.run(measured, env=environment, capture_output=True, text=True)
    if done.returncode != code:
        raise CommandFailedError(f"{' '.join(command)}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    *printed, seconds = done.stdout.splitlines()
    return float(seconds), "\n".join(printed)


def main() -> int:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    code = subprocess.run(sys.argv[1:]).returncode
    with suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.3f}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
