"""Bytes as a broker would send them, built field by field from the layout in the documentation of the decoders."""

from __future__ import annotations

import ipaddress
import json
import struct
import zlib
from collections.abc import Iterator

from spark_jobs.rocketmq.message import MAX_INFLATED_BYTES, Message, inflated, scan_messages

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477


def host(address: str, port: int) -> bytes:
    return ipaddress.ip_address(address).packed + struct.pack(">i", port)


def stored(
    body: bytes = b"hello",
    *,
    offset: int = 0,
    sys_flag: int = 0,
    topic: str = "topic",
    properties: str = "KEYS\x01a b\x02TAGS\x01t\x02",
    born: str = "10.0.0.1",
    store: str = "10.0.0.2",
    store_time: int = 1_795_000_000_123,
    born_time: int = 1_795_000_000_001,
    crc: int | None = None,
    magic: int = MAGIC_V1,
) -> bytes:
    """One message as the commit log holds it; the address bits of sysFlag are set by the addresses."""
    sys_flag |= 0x10 * (":" in born) | 0x20 * (":" in store)
    crc = zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc
    name, text = topic.encode(), properties.encode()
    length = struct.pack(">h" if magic == MAGIC_V2 else ">b", len(name))
    rest = b"".join(
        (
            struct.pack(">iiiiqqi", magic, crc, 3, 5, offset, 1_000_000 + offset, sys_flag),
            struct.pack(">q", born_time) + host(born, 4001),
            struct.pack(">q", store_time) + host(store, 10911),
            struct.pack(">iqi", 2, 77, len(body)) + body,
            length + name,
            struct.pack(">h", len(text)) + text,
        )
    )
    return struct.pack(">i", len(rest) + 4) + rest


def decode_messages(stored: bytes, max_inflated_bytes: int = MAX_INFLATED_BYTES) -> Iterator[Message]:
    """The messages with inflated bodies, as a reader of a range gives them."""
    return (inflated(each, max_inflated_bytes) for each in scan_messages(stored, max_inflated_bytes))


def inner(body: bytes, properties: str = "", flag: int = 0) -> bytes:
    """One message inside a batch that the broker keeps as one."""
    text = properties.encode()
    rest = struct.pack(">iiii", 0, 0, flag, len(body)) + body + struct.pack(">h", len(text)) + text
    return struct.pack(">i", len(rest) + 4) + rest


def json_payload(header: dict[str, object], body: bytes = b"") -> bytes:
    """A frame without its first four bytes, with a JSON header."""
    text = json.dumps(header).encode()
    return struct.pack(">I", len(text)) + text + body


def binary_payload(
    code: int, opaque: int, flag: int, remark: str, fields: dict[str, str], body: bytes = b""
) -> bytes:
    """A frame without its first four bytes, with a binary header (codec 1)."""
    packed = b"".join(
        struct.pack(">h", len(k.encode())) + k.encode() + struct.pack(">i", len(v.encode())) + v.encode()
        for k, v in fields.items()
    )
    text = remark.encode()
    header = struct.pack(">hbhiii", code, 0, 513, opaque, flag, len(text)) + text
    header += struct.pack(">i", len(packed)) + packed
    return struct.pack(">I", 1 << 24 | len(header)) + header + body
