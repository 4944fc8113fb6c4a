"""Servers on loopback: one that accepts any request, and a real Alertmanager."""

from __future__ import annotations

import json
import shutil
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy import child_process

BINARY = "prometheus-alertmanager"
needs_alertmanager = pytest.mark.skipif(
    shutil.which(BINARY) is None, reason=f"{BINARY} is not installed (Debian: apt-get install {BINARY})"
)


@dataclass
class Receiver:
    """What was sent to it, and what it answers: the statuses in `answers`, one each, then 200."""

    url: str = ""
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    def bodies(self, path: str) -> list[Any]:
        return [body for _, where, body in self.requests if where == path]


@contextmanager
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.requests.append((self.command, self.path, json.loads(text) if text else None))
            self.send_response(found.answers.pop(0) if found.answers else 200)
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            """The tests look at the requests themselves."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def mailbox() -> Iterator[tuple[str, list[EmailMessage]]]:
    """An SMTP server (RFC 5321) without TLS; yields its `host:port`, and the mails that it has taken."""
    taken: list[EmailMessage] = []

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 here")
            while line := self.rfile.readline():
                command = line.decode().strip().upper()
                if command == "DATA":
                    self.say("354 go on")
                    mail = b"".join(iter(self.rfile.readline, b".\r\n"))
                    taken.append(message_from_bytes(mail, _class=EmailMessage, policy=policy.default))
                self.say("221 bye" if command == "QUIT" else "250 well")
                if command == "QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", taken
        finally:
            server.shutdown()
            thread.join()


EACH_AT_ONCE = {
    "route": {
        **{"receiver": "hook", "group_by": ["..."], "group_wait": "0s"},
        **{"group_interval": "1s", "repeat_interval": "1h"},
    }
}


@contextmanager
def alertmanager(
    folder: Path,
    webhook: str,
    resolve_timeout: str,
    config: dict[str, Any] = EACH_AT_ONCE,
    receivers: Sequence[str] = ("hook",),
) -> Iterator[str]:
    """A real Alertmanager that notifies the webhook, at the path of a receiver's name; yields its base URL.

    Receivers that `config` has are used as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = config.get("receivers") or [
        {"name": name, "webhook_configs": [{"url": f"http://{webhook}/{name}"}]} for name in receivers
    ]
    config = config | {"global": {"resolve_timeout": resolve_timeout}, "receivers": known}
    (folder / "alertmanager.yml").write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        str(shutil.which(BINARY)),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        process = child_process.spawn(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            until(lambda: _answers(f"{url}/-/ready"), 30, f"Alertmanager is not ready: see {folder / 'log'}")
            yield url
        finally:
            child_process.end(process, grace_seconds=5)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def until(holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.1)
