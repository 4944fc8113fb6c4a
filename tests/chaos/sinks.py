"""The sinks of the alerts: a chat that can refuse, a dead man's switch that can refuse, and an Alertmanager that is observed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.chaos.judge import Shown


class Sinks:
    """A server on loopback: Apprise's JSON notifications at `/chat`, the dead man's switch at `/heartbeat`."""

    def __init__(self) -> None:
        self.notifications: list[str] = []
        self._refuses = threading.Event()
        sinks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if sinks._refuses.is_set():
                    self.send_response(503)
                else:
                    if self.path.startswith("/chat"):
                        sinks.notifications.append(json.loads(text).get("title", ""))
                    self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                """The run has its own log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def refuse(self) -> None:
        self._refuses.set()

    def accept(self) -> None:
        self._refuses.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Observer:
    """Asks Alertmanager every second which alerts are open."""

    def __init__(self, alertmanager: str, began: float):
        self._url, self._began = f"{alertmanager}/api/v2/alerts", began
        self._open: dict[tuple[str, str], float] = {}
        self._closed: list[Shown] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def alerts(self) -> list[Shown]:
        """All that were open, in the order in which they opened."""
        still = [Shown(check, entity, begin, None) for (check, entity), begin in self._open.items()]
        return sorted([*self._closed, *still], key=lambda each: each.begin)

    @property
    def open(self) -> set[tuple[str, str]]:
        return set(self._open)

    def close(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(1.0):
            try:
                answer = httpx.get(self._url, params={"active": "true"}, timeout=5).json()
            except httpx.HTTPError:
                continue
            now = time.monotonic() - self._began
            found = {(each["labels"]["alertname"], each["labels"].get("entity", "")) for each in answer}
            for key in self._open.keys() - found:
                self._closed.append(Shown(*key, self._open.pop(key), now))
            for key in found - self._open.keys():
                self._open[key] = now


@contextmanager
def sinks() -> Iterator[Sinks]:
    found = Sinks()
    try:
        yield found
    finally:
        found.close()
