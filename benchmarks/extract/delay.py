"""A TCP proxy that lets everything pass some milliseconds later, however much it is: a long way, not a narrow one.

`python -m benchmarks.extract.delay HOST:PORT MILLISECONDS_EACH_WAY` says `READY <address>` and runs until its
stdin ends. Nothing waits for what came before it, so the throughput of a connection is not limited.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
from collections import deque


class Side(asyncio.Protocol):
    """One of the two connections of a pair: passes on to the other what it receives."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._waiting: deque[bytes] = deque()
        self._transport: asyncio.Transport | None = None
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting.append(data)
        asyncio.get_running_loop().call_later(self._delay, self._pass_on)

    def connection_lost(self, _error: Exception | None) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()

    def _pass_on(self) -> None:
        data = self._waiting.popleft()
        to = self.other._transport if self.other is not None else None
        if to is not None and not to.is_closing():
            to.write(data)


class Incoming(Side):
    """The side that a client has connected to; it connects to the target when it is made."""

    def __init__(self, target: tuple[str, int], delay: float) -> None:
        super().__init__(delay)
        self._target = target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self._connecting = asyncio.ensure_future(self._connect(transport))

    async def _connect(self, transport: asyncio.Transport) -> None:
        outgoing = Side(self._delay)
        outgoing.other, self.other = self, outgoing
        try:
            await asyncio.get_running_loop().create_connection(lambda: outgoing, *self._target)
        except OSError:
            transport.close()
        else:
            transport.resume_reading()


async def serve(target: str, delay: float) -> None:
    """Serve until stdin ends."""
    host, _, port = target.rpartition(":")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Incoming((host, int(port)), delay), "127.0.0.1", 0)
    print(f"READY 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    # Not epoll: it waits whole milliseconds.
    precise = asyncio.SelectorEventLoop(selectors.SelectSelector())
    precise.run_until_complete(serve(sys.argv[1], float(sys.argv[2]) / 1000))
