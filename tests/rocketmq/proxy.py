"""A TCP proxy before a real broker that does to the stream what networks and broken disks do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

# (number of the connection, bytes so far, data) -> data to pass on, or None to cut the connection here
Tamper = Callable[[int, int, bytes], bytes | None]


@contextmanager
def proxy(target: str, tamper: Tamper, delay: float = 0.0) -> Iterator[str]:
    """Yield the proxy's address; `tamper` sees what the broker sends, `delay` is the one-way latency, seconds."""
    server = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = [server]

    def accept() -> None:
        number = 0
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                host, _, port = target.rpartition(":")
                broker = socket.create_connection((host, int(port)))
                opened.extend((client, broker))
                back = _delayed(lambda n, data, c=number: tamper(c, n, data), client, broker, delay)
                forth = _delayed(lambda n, data: data, broker, client, delay)
                for source, sink in ((broker, back), (client, forth)):
                    threading.Thread(target=_pump, args=(source, sink), daemon=True).start()
                number += 1

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        for each in opened:
            each.close()


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
        if changed is None:
            close()
            return False
        to.sendall(changed)
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
