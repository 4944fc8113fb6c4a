"""A TCP proxy before a real broker that does to the stream what networks and broken disks do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import split_address
from spark_jobs.rocketmq.route import MessageQueue


class Last(bytes):
    """Data after which the connection is cut."""


# (number of the connection, bytes so far, data) -> data to pass on, or `Last`, or None to cut the connection here
Tamper = Callable[[int, int, bytes], bytes | None]


def unchanged(_connection: int, _sent: int, data: bytes) -> bytes | None:
    return data


@contextmanager
def proxy(
    target: str, tamper: Tamper = unchanged, delay: float = 0.0, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Yield the proxy's address; `tamper` sees what the broker sends, `delay` is the one-way latency, seconds."""
    six = ":" in host
    server = socket.create_server((host, 0), family=socket.AF_INET6 if six else socket.AF_INET)
    opened: list[socket.socket] = [server]

    def accept() -> None:
        number = 0
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                try:
                    broker = socket.create_connection(split_address(target))
                except OSError:  # as a port forwarding does whose target is down
                    client.close()
                    continue
                opened.extend((client, broker))
                back = _delayed(lambda n, data, c=number: tamper(c, n, data), client, broker, delay)
                forth = _delayed(lambda n, data: data, broker, client, delay)
                for source, sink in ((broker, back), (client, forth)):
                    threading.Thread(target=_pump, args=(source, sink), daemon=True).start()
                number += 1

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"[{host}]:{server.getsockname()[1]}" if six else f"{host}:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)  # closing alone would let the waiting `accept` take one more
        accepting.join()
        for each in opened:
            each.close()


def through(where: MessageQueue, address: str) -> MessageQueue:
    """The queue as a route would name it whose broker is behind the proxy."""
    return replace(where, addresses=((0, address),))


class Proxied(Client):
    """A client whose routes, fresh ones too, lead through the proxy to the broker."""

    def __init__(self, namesrv: str, address: str, **options: float) -> None:
        super().__init__([namesrv], "sandbox", **options)  # type: ignore[arg-type]
        request = self._request_queues
        self._request_queues = lambda topic: [through(q, address) for q in request(topic)]  # type: ignore[method-assign]


def _pump(source: socket.socket, sink: Callable[[bytes], bool]) -> None:
    with suppress(OSError):
        while (data := source.recv(65536)) and sink(data):
            pass
    sink(b"")


def _delayed(
    tamper: Callable[[int, bytes], bytes | None], to: socket.socket, other: socket.socket, delay: float
) -> Callable[[bytes], bool]:
    """A sink that passes data on `delay` seconds after it came, without holding back what comes after it."""
    passed = 0
    waiting: list[tuple[float, bytes]] = []
    ready = threading.Condition()

    def close() -> None:
        for each in (to, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def send(data: bytes) -> bool:
        nonlocal passed
        changed = tamper(passed, data) if data else None
        passed += len(data)
        if changed is not None:
            to.sendall(changed)
        if changed is None or isinstance(changed, Last):
            close()
            return False
        return True

    def later() -> None:
        with suppress(OSError):
            while True:
                with ready:
                    ready.wait_for(lambda: waiting)
                    due, data = waiting.pop(0)
                time.sleep(max(0.0, due - time.monotonic()))
                if not send(data):
                    return

    if delay:
        threading.Thread(target=later, daemon=True).start()

    def sink(data: bytes) -> bool:
        if not delay:
            with suppress(OSError):
                return send(data)
            return False
        with ready:
            waiting.append((time.monotonic() + delay, data))
            ready.notify()
        return True

    return sink
