"""Encode and decode the frames of the remoting protocol.

A frame is `int32 length | int32 (codec << 24 | header length) | header | body`, big-endian; `length` is the number of
bytes after it (`RemotingCommand` and `NettyDecoder` of Apache RocketMQ). The header is JSON (codec 0) or binary
(codec 1, `RocketMQSerializable`, if the broker is configured for it).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from spark_jobs.rocketmq.errors import ProtocolError

JSON_CODEC = 0
BINARY_CODEC = 1
RESPONSE_FLAG = 1
MAX_FRAME_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 1024 * 1024

# Ordinal of V5_5_0 in MQVersion. To a client from 401 (V4_9_4) on, a nameserver sends standard JSON.
CLIENT_VERSION = 513
_LANGUAGE = "PYTHON"

_INT = Struct(">i")
_LENGTHS = Struct(">iI")
_SHORT = Struct(">h")
_BINARY_HEAD = Struct(">hbhiii")
# `json.dumps` with separators creates an encoder in every call.
_to_json = json.JSONEncoder(separators=(",", ":")).encode
_from_json = json.JSONDecoder().decode


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame. `body` is a copy, so the buffer that was decoded can be reused.

    `version` is the ordinal of the sender's release in MQVersion: 4.5.2 is 317, 4.9.1 is 395, 5.5.0 is 513.
    """

    code: int
    opaque: int
    flag: int
    remark: str
    fields: dict[str, str]
    body: bytes
    version: int = 0

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)


def encode(code: int, opaque: int, fields: dict[str, str], body: bytes = b"", flag: int = 0) -> bytes:
    """The bytes of a frame with a JSON header; `fields` are the header's `extFields`."""
    header = _to_json(
        {
            "code": code,
            "language": _LANGUAGE,
            "version": CLIENT_VERSION,
            "opaque": opaque,
            "flag": flag,
            "serializeTypeCurrentRPC": "JSON",
            "extFields": fields,
        }
    ).encode()
    return b"".join((_LENGTHS.pack(4 + len(header) + len(body), len(header)), header, body))


def frame_length(prefix: bytes | bytearray | memoryview) -> int:
    """The number of bytes after the first four of a frame.

    Raises:
        ProtocolError: brokers send no frame of this length, so the peer uses another protocol.
    """
    (length,) = _INT.unpack_from(prefix)
    if not 4 <= length <= MAX_FRAME_BYTES:
        raise ProtocolError(
            f"the frame length is {length} (first bytes {bytes(prefix[:4])!r}), but frames have 4 to "
            f"{MAX_FRAME_BYTES} bytes: is this the port of a RocketMQ broker or nameserver, and does TLS match?"
        )
    return int(length)


def decode(payload: bytes | bytearray | memoryview) -> Frame:
    """Decode a frame without its first four bytes.

    Raises:
        ProtocolError: the lengths are inconsistent, or the header cannot be decoded.
    """
    view = memoryview(payload)
    if len(view) < 4:
        raise ProtocolError(f"a frame of {len(view)} bytes is too short for its header length")
    (mark,) = _INT.unpack_from(view)
    codec, size = (mark >> 24) & 0xFF, mark & 0xFFFFFF
    if size > min(len(view) - 4, MAX_HEADER_BYTES):
        raise ProtocolError(f"a frame of {len(view)} bytes has a header length of {size}")
    header, body = view[4 : 4 + size], bytes(view[4 + size :])
    if codec == JSON_CODEC:
        return _decode_json(header, body)
    if codec == BINARY_CODEC:
        return _decode_binary(header, body)
    raise ProtocolError(f"header codec {codec} is neither JSON (0) nor binary (1)")


def _decode_json(header: memoryview, body: bytes) -> Frame:
    try:
        parsed = _from_json(str(header, "utf-8"))
        fields = parsed.get("extFields") or {}
        return Frame(
            code=int(parsed["code"]),
            opaque=int(parsed["opaque"]),
            flag=int(parsed.get("flag", 0)),
            remark=str(parsed.get("remark") or ""),
            fields={name: str(value) for name, value in fields.items() if value is not None},
            body=body,
            version=int(parsed.get("version", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ProtocolError(
            f"the JSON header of a frame cannot be decoded: {error!r}: {bytes(header[:80])!r}"
        ) from None


def _decode_binary(header: memoryview, body: bytes) -> Frame:
    """Layout: code 2, language 1, version 2, opaque 4, flag 4, remark (4 + n), fields (4 + n)."""
    try:
        code, _language, version, opaque, flag, remark_size = _BINARY_HEAD.unpack_from(header)
        at = _BINARY_HEAD.size
        remark, at = _text(header, at, remark_size)
        (fields_size,) = _INT.unpack_from(header, at)
        at += 4
        end = at + fields_size
        if fields_size < 0 or end > len(header):
            raise ValueError(f"fields of {fields_size} bytes in a header of {len(header)}")
        fields: dict[str, str] = {}
        while at < end:
            (size,) = _SHORT.unpack_from(header, at)
            name, at = _text(header, at + 2, size)
            (size,) = _INT.unpack_from(header, at)
            fields[name], at = _text(header, at + 4, size)
        if at != end:
            raise ValueError("the fields overrun their length")
    except (ValueError, StructError) as error:
        raise ProtocolError(f"the binary header of a frame cannot be decoded: {error}") from None
    return Frame(
        code=code, opaque=opaque, flag=flag, remark=remark, fields=fields, body=body, version=version
    )


def _text(header: memoryview, at: int, size: int) -> tuple[str, int]:
    if size < 0 or at + size > len(header):
        raise ValueError(f"text of {size} bytes at {at} in a header of {len(header)}")
    return str(header[at : at + size], "utf-8", "replace"), at + size
