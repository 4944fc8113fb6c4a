"""Ask one broker several requests over one connection, with few in flight and within a deadline."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from spark_jobs.broker_facts.requests import Request, Status
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.errors import ConnectionLostError, ProtocolError, RequestTimeoutError
from spark_jobs.rocketmq.frames import Frame

_CONNECTIONS = 2  # a broker that breaks or exhausts so many is not asked further


class BrokerAsker:
    """A context manager. Opens a connection when it is needed, and once more after one was lost or was too slow.

    Attributes:
        error: why the last connection ended or could not be opened; empty if none did.
    """

    def __init__(self, connect: Callable[[], Connection], in_flight: int, deadline: float):
        """Ask nothing yet.

        Args:
            connect: opens a connection.
            in_flight: the greatest number of requests without an answer.
            deadline: by `time.monotonic()`; requests that are not answered then are not waited for.
        """
        self._connect, self._in_flight, self._deadline = connect, in_flight, deadline
        self._connection: Connection | None = None
        self._left = _CONNECTIONS
        self.error = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Frame | Status]]:
        """Yield each request once, with its answer, or with TIMED_OUT or FAILED if there is none."""
        waiting = deque(requests)
        sent: dict[int, Request] = {}
        while waiting or sent:
            if time.monotonic() > self._deadline or not self._is_open():
                self.error = self.error or "the deadline of the collection has passed"
                yield from ((each, Status.TIMED_OUT) for each in (*sent.values(), *waiting))
                self._close()  # a late answer must not be matched to another request
                return
            assert self._connection is not None
            try:
                while waiting and len(sent) < self._in_flight:
                    opaque = self._connection.send(waiting[0].code, waiting[0].fields)
                    sent[opaque] = waiting.popleft()
                frame = self._connection.receive()
            except (ConnectionLostError, ProtocolError) as error:
                self.error = str(error)
                self._close()
                was = Status.TIMED_OUT if isinstance(error, RequestTimeoutError) else Status.FAILED
                yield from ((each, was) for each in sent.values())
                sent.clear()
                continue
            yield sent.pop(frame.opaque), frame

    def _is_open(self) -> bool:
        """Whether there is a connection; one is opened if there is none and there may be another."""
        if self._connection is None and self._left:
            self._left -= 1
            try:
                self._connection = self._connect()
            except ConnectionLostError as error:
                self.error = str(error)
        return self._connection is not None
