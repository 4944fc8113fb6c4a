"""What this process and its JVM print: to the client whose job runs, otherwise to where it went before."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable

SECONDS = 10.0


class Output:
    """Reads standard output and error, of child processes too, line by line.

    Attributes:
        to: gets each line while a job runs; None: the lines go to the log of the driver.
    """

    def __init__(self) -> None:
        self.to: Callable[[str], None] | None = None
        self._log = os.fdopen(os.dup(2), "w", buffering=1)
        reading, writing = os.pipe()
        for stream in (1, 2):
            os.dup2(writing, stream)
        os.close(writing)
        self._mark = uuid.uuid4().hex
        self._marked = threading.Event()
        threading.Thread(target=self._read, args=(reading,), daemon=True).start()

    def flush(self) -> None:
        """Wait until all that was printed has been read."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._marked.clear()
        os.write(2, f"\n{self._mark}\n".encode())
        self._marked.wait(SECONDS)

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "r", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip("\n")
                if text == self._mark:
                    self._marked.set()
                elif to := self.to:
                    to(text)
                elif text:
                    self._log.write(line)
