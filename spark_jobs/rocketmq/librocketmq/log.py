r"""Why a call of the library failed: it returns a status without a reason, and writes the reason to its log.

A line is `[time](error):msg: check signature failed.,error:16,in file </…/MQClientAPIImpl.cpp> line:553[pullMessageSync:496]`.
The number is the broker's response code, or -1 for an error of the library.
"""

from __future__ import annotations

import re
from pathlib import Path

_LINE = re.compile(r"^\[[^\]]*\]\((?:error|warning)\):(.*?)(?:\[\w+:\d+\])?$")
_EXCEPTION = re.compile(r"^msg: (.*),error:(-?\d+),in file <")
_REASONS = ("can not connect to server", "wait response timeout", "timeout")
_NO_REASON = "The pullResult NULL"


class Log:
    """The log of this process below a folder; `failures` reads what was added."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._folder, self._pattern = folder, f"{pid}_rocketmq-cpp.log.*"
        self._read: dict[Path, int] = {}

    def failures(self) -> list[tuple[int, str]]:
        """Response code (-1: none) and reason of each failure since the last call."""
        found = []
        for file in sorted(self._folder.glob(self._pattern)):
            with file.open("rb") as lines:
                lines.seek(self._read.get(file, 0))
                added = lines.read()
            self._read[file] = self._read.get(file, 0) + len(added)
            found += failures_in(added.decode("utf-8", "replace"))
        return found


def failures_in(text: str) -> list[tuple[int, str]]:
    """Response code (-1: none) and reason of each failure in lines of a log."""
    found = []
    for line in text.splitlines():
        if not (match := _LINE.match(line)):
            continue
        if exception := _EXCEPTION.match(match[1]):
            if not exception[1].startswith(_NO_REASON):
                found.append((int(exception[2]), exception[1]))
        elif any(reason in match[1] for reason in _REASONS):
            found.append((-1, match[1].strip()))
    return found
