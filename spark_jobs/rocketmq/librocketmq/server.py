"""The process in which the library runs: `python -m spark_jobs.rocketmq.librocketmq.server FOLDER`, started by `process.py`.

The library has threads of its own, which a fork does not copy, and a crash of it ends its process. So it never runs in the
process of a job. Requests arrive on standard input, responses leave on the file descriptor that was standard output: each is a
length (4 bytes, big-endian) and a tuple in Python's `marshal` format. The library's log is below the folder, which is $HOME, too;
it is removed at the end.
"""

from __future__ import annotations

import marshal
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Never

from .consumer import CallError, Consumer, LostError, MovedError, ShortError
from .limits import LibraryError, UnsupportedError, UsedAfterForkError
from .log import Log

# By the name that a response gives to the error.
_NAMES = {
    CallError: "call",
    MovedError: "moved",
    ShortError: "short",
    LostError: "lost",
    UnsupportedError: "unsupported",
    LibraryError: "library",
    UsedAfterForkError: "fork",
}


def receive(stream: BinaryIO) -> Any:
    """The next message; None at the end of the stream."""
    head = stream.read(4)
    return marshal.loads(stream.read(int.from_bytes(head, "big"))) if len(head) == 4 else None


def encode(message: Any) -> bytes:
    """A message, with its length before it."""
    data = marshal.dumps(message)
    return len(data).to_bytes(4, "big") + data


def _end(folder: Path) -> Never:
    """End this process at once: to shut the consumer down would wait for its threads."""
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _end_with(parent: int, folder: Path) -> None:
    """End this process when its parent has ended: a fork of the parent may keep the pipes open."""
    while os.getppid() == parent:
        time.sleep(1.0)
    _end(folder)


def main() -> None:
    """Answer requests until the input ends."""
    folder = Path(sys.argv[1])
    threading.Thread(target=_end_with, args=(os.getppid(), folder), daemon=True).start()
    responses = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the library prints must not look like a response
    consumer: Consumer | None = None

    def respond(*message: Any) -> None:
        try:
            responses.write(encode(message))
        except BrokenPipeError:  # the client was closed during a read
            _end(folder)

    while (request := receive(sys.stdin.buffer)) is not None:
        method, arguments = request
        try:
            if method == "start":
                namesrv, group, credentials = arguments
                log = Log(folder / "logs" / "rocketmq-cpp", os.getpid())
                consumer = Consumer(namesrv, group, credentials, log)
                respond("result", None)
                continue
            assert consumer is not None
            if method == "read":
                for batch in consumer.read(*arguments):
                    respond("batch", batch)
                respond("result", None)
            else:
                respond("result", getattr(consumer, method)(*arguments))
        except Exception as error:
            if type(error) not in _NAMES:
                raise
            respond("error", _NAMES[type(error)], error.args)
    _end(folder)


if __name__ == "__main__":
    main()
