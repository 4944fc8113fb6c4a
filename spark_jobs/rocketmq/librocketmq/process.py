"""The process of the library as its starter sees it: calls with a time limit, and what its end means."""

from __future__ import annotations

import contextlib
import marshal
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from ..errors import RequestTimeoutError
from .limits import OFFICIAL, LibraryError, UsedAfterForkError
from .server import encode

START_SECONDS = 60.0
_STOP_SECONDS = 2.0
_READ_BYTES = 1024 * 1024


class LibraryProcess:
    """A running `server.py`, used by one thread at a time. `close` ends it; a call after that raises LibraryError."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        # The library writes its log below $HOME; nobody else reads it.
        self._home = tempfile.mkdtemp(prefix="librocketmq-")
        self._errors = Path(self._home) / "stderr"
        self._received = bytearray()
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.server", self._home],
                env={**os.environ, "HOME": self._home, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._ended = threading.Event()

    @property
    def pid(self) -> int:
        """The process id of the library's process."""
        return self._process.pid

    def send(self, method: str, *arguments: Any) -> None:
        """Send a request.

        Raises:
            UsedAfterForkError: this process is a fork of the one that started the library.
            LibraryError: the process has ended.
        """
        self._check_owner()
        if self._ended.is_set():
            raise LibraryError("the process of librocketmq was closed")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode((method, arguments)))
            self._process.stdin.flush()
        except OSError:
            raise self._crashed() from None

    def receive(self, seconds: float) -> tuple[Any, ...]:
        """The next response.

        Raises:
            RequestTimeoutError: none arrived in time; the process was ended.
            UsedAfterForkError: as `send`.
            LibraryError: the process has ended, by itself or by a signal.
        """
        self._check_owner()
        deadline = time.monotonic() + seconds
        self._fill(4, deadline, seconds)
        size = 4 + int.from_bytes(self._received[:4], "big")
        self._fill(size, deadline, seconds)
        with memoryview(self._received) as view:
            message: tuple[Any, ...] = marshal.loads(view[4:size])
        del self._received[:size]
        return message

    def _fill(self, size: int, deadline: float, seconds: float) -> None:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            while len(self._received) < size:
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    self.close()
                    raise RequestTimeoutError(
                        f"librocketmq did not return within {seconds:g} s, so its process was ended"
                    )
                if not (data := os.read(self._process.stdout.fileno(), _READ_BYTES)):
                    raise self._crashed()
                self._received += data

    def _crashed(self) -> LibraryError:
        """The error for the end of the process; it has been waited for."""
        code = self._process.wait()
        said = self._errors.read_text(errors="replace").strip().splitlines()[-1:]
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        self.close()
        return LibraryError(
            f"the process of librocketmq (client = {OFFICIAL!r}) {how}{': ' if said else ''}{''.join(said)}. "
            "Nothing of this read was kept. Run it again; if that repeats, use client = 'remoting'"
        )

    def _check_owner(self) -> None:
        if os.getpid() != self._owner:
            raise UsedAfterForkError(
                f"this client was opened by process {self._owner}, and process {os.getpid()} is a fork of it: open a client in "
                "each process"
            )

    def close(self) -> None:
        """End the process; idempotent. In a fork only its own copies of the pipes are closed."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if os.getpid() != self._owner or self._ended.is_set():
            return
        self._ended.set()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)
