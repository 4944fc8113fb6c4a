"""One TCP connection to a broker or nameserver, with several requests in flight. Not thread-safe."""

from __future__ import annotations

import contextlib
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from spark_jobs.rocketmq import frames
from spark_jobs.rocketmq.acl import Credentials, sign
from spark_jobs.rocketmq.errors import ConnectionLostError, RequestTimeoutError, UnreachableError
from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.requests import GO_AWAY

_MAX_OPAQUE = 2**31 - 1
# Space for a few responses of the size that a broker sends, so that one system call can read several.
_BUFFER_BYTES = 512 * 1024
# Number of requests that one system call sends. With many more, the broker would wait for requests.
_SENT_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings for brokers and nameservers.

    Attributes:
        ca_file: PEM file of the trusted certificate authorities; None for those of the system.
        cert_file: PEM file with this client's certificate (and key, if `key_file` is None).
        key_file: PEM file with this client's key.
        verify: verify the server's certificate and, if `check_host` is set, its host name.
        check_host: the certificate must name the host. RocketMQ's often do not, as routes contain IP addresses.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    check_host: bool = False

    def context(self) -> ssl.SSLContext:
        """The SSL context; raises OSError or ssl.SSLError if a file is missing or not in PEM format."""
        context = ssl.create_default_context(cafile=self.ca_file)
        context.check_hostname = self.verify and self.check_host
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, `1.2.3.4:port` or `[v6]:port`.

    Raises:
        ValueError: the address has none of these forms.
    """
    host, _, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        if ":" in host:
            ipaddress.IPv6Address(host)  # otherwise `::1`, which has no port, would be the host `:`
        if host and port.isdecimal() and 0 < int(port) < 65536:
            return host, int(port)
    except ValueError:
        pass
    raise ValueError(f"address {address[:200]!r} is not host:port")


class Connection:
    """An open connection. A context manager."""

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 10.0,
        connect_timeout: float = 3.0,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect.

        Args:
            address: `host:port`.
            timeout: seconds to wait for a response.
            connect_timeout: seconds to wait for the connection, including the TLS handshake.
            credentials: sign every request with these.
            tls: use TLS with this context; None for plain TCP.

        Raises:
            UnreachableError: the connection could not be opened.
        """
        host, port = split_address(address)
        self.address = address
        self._timeout = timeout
        self._credentials = credentials
        self._opaque = 0
        self.in_flight: set[int] = set()
        self._deadline = 0.0  # of the response that `receive` waits for
        self._received = io.BufferedReader(_Received(self._receive_into), _BUFFER_BYTES)
        self._unsent: list[bytes] = []
        try:
            self._socket = socket.create_connection((host, port), connect_timeout)
        except OSError as error:
            raise UnreachableError(f"no connection to {address}: {error}") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            self._socket.settimeout(timeout)
        except OSError as error:
            self._socket.close()
            raise UnreachableError(f"no TLS connection to {address}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; idempotent."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def send(self, code: int, fields: dict[str, str], body: bytes = b"") -> int:
        """Queue a request, sent at the latest when `receive` waits; return its id, which the response has too (opaque).

        Raises:
            ConnectionLostError: the connection has ended.
        """
        if self._credentials is not None:
            fields = sign(self._credentials, fields, body)
        self._opaque = opaque = self._opaque % _MAX_OPAQUE + 1
        self._unsent.append(frames.encode(code, opaque, fields, body))
        self.in_flight.add(opaque)
        if len(self._unsent) >= _SENT_TOGETHER:
            self._flush()
        return opaque

    def receive(self) -> Frame:
        """The next response, to any of the requests in flight. Requests from the broker are skipped.

        Raises:
            RequestTimeoutError: no response arrived in time. The connection cannot be used any more.
            ConnectionLostError: the connection has ended.
            ProtocolError: the bytes are not a frame. The connection cannot be used any more.
        """
        self._deadline = time.monotonic() + self._timeout
        while True:
            frame = frames.decode(self._read(frames.frame_length(self._read(4))))
            if frame.code == GO_AWAY:
                raise ConnectionLostError(f"{self.address} is shutting down")
            if frame.is_response and frame.opaque in self.in_flight:
                self.in_flight.remove(frame.opaque)
                return frame

    def call(self, code: int, fields: dict[str, str], body: bytes = b"") -> Frame:
        """Send a request and wait for its response; raises the same errors as `send` and `receive`."""
        opaque = self.send(code, fields, body)
        while True:
            frame = self.receive()
            if frame.opaque == opaque:
                return frame

    def _read(self, size: int) -> bytes:
        """The next `size` bytes."""
        found = self._received.read(size)
        if len(found) < size:
            raise ConnectionLostError(
                f"{self.address} closed the connection before the last {size - len(found)} bytes"
            )
        return found

    def _flush(self) -> None:
        """Send the queued requests in one system call."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionLostError(
                f"the connection to {self.address} was lost while sending: {error}"
            ) from None

    def _receive_into(self, view: memoryview) -> int:
        """Wait for bytes, after the requests that they answer were sent; 0 if the peer has closed the connection."""
        if self._unsent:
            self._flush()
        try:
            count = self._socket.recv_into(view)
        except TimeoutError:
            count = -1
        except OSError as error:
            raise ConnectionLostError(f"the connection to {self.address} was lost: {error}") from None
        if count < 0 or (count and time.monotonic() > self._deadline):
            raise RequestTimeoutError(
                f"{self.address} did not answer within {self._timeout:g} s "
                f"({len(self.in_flight)} requests in flight)"
            )
        return count


class _Received(io.RawIOBase):
    """What a connection receives, as a stream that `io` can buffer."""

    def __init__(self, receive_into: Callable[[memoryview], int]) -> None:
        self._receive_into = receive_into

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._receive_into(buffer)
