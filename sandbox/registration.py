"""Two requests of the remoting protocol: is a broker in a nameserver's route, and put it there now."""

from __future__ import annotations

import json
import socket
import struct

GET_ROUTE_BY_TOPIC = 105
UPDATE_BROKER_CONFIG = 25
SUCCESS = 0
TIMEOUT_SECONDS = 2.0


def serves(namesrv: str, topic: str, broker_address: str) -> bool:
    """Whether `namesrv` ("host:port") names the broker in the route of the topic; false if unreachable."""
    try:
        code, body = _ask(namesrv, GET_ROUTE_BY_TOPIC, {"topic": topic})
    except OSError:
        return False
    return code == SUCCESS and f'"{broker_address}"'.encode() in body


def register_now(broker_address: str) -> None:
    """Make a broker register at its nameservers at once.

    One that starts before it has a connection to the nameserver tries again only 10 s later. It
    also registers when its permission is set, to what it is here; an unreachable broker is no error.
    """
    try:
        _ask(broker_address, UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6")
    except OSError:
        return


def _ask(address: str, code: int, fields: dict[str, str], body: bytes = b"") -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    header = json.dumps(
        {
            "code": code,
            "language": "PYTHON",
            "version": 0,
            "opaque": 1,
            "flag": 0,
            "serializeTypeCurrentRPC": "JSON",
            "extFields": fields,
        }
    ).encode()
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as connection:
        connection.sendall(struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)
        size, header_size = struct.unpack(">II", _read(connection, 8))
        answer = _read(connection, size - 4)
    binary, header_size = header_size >> 24, header_size & 0xFFFFFF
    found = struct.unpack_from(">h", answer)[0] if binary else json.loads(answer[:header_size])["code"]
    return found, answer[header_size:]


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the connection was closed within an answer")
        data += piece
    return data
