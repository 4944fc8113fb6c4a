"""A sink of OpenLineage events on loopback: the events that Marquez would receive."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = dict[str, Any]


class Sink:
    """Takes events until it is closed; then its port refuses connections."""

    def __init__(self) -> None:
        """Listen at once."""
        self.events: list[Event] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        events = self.events

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                events.append(json.loads(body))
                self.send_response(201)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler

    def wait_for(self, wanted: Callable[[Event], bool], seconds: float) -> list[Event]:
        """The events that are wanted, as soon as there is one; none where the time is over."""
        until = time.monotonic() + seconds
        while not (found := [event for event in list(self.events) if wanted(event)]):
            if time.monotonic() > until:
                return []
            time.sleep(0.2)
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def wrote(table: str) -> Callable[[Event], bool]:
    """Whether an event says that something which ended well wrote the table (`<namespace>.<name>`)."""
    return lambda event: event["eventType"] == "COMPLETE" and names(event, "outputs", table)


def names(event: Event, side: str, table: str) -> bool:
    """Whether the event's `inputs` or `outputs` name the table, as its folder in the warehouse or in the catalog."""
    return any(each["name"].replace("/", ".").endswith(f".{table}") for each in event.get(side, []))
