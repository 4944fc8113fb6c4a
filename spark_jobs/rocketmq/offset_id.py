"""The broker's id of a stored message (offsetMsgId): where its broker was, and its physical offset in the commit log."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

_V4_DIGITS, _V6_DIGITS = 32, 56


@dataclass(frozen=True, slots=True)
class OffsetId:
    """A decoded id: the broker's `host:port` or `[v6]:port`, and the physical offset."""

    address: str
    physical_offset: int


def decode_offset_id(text: str) -> OffsetId | None:
    """Decode 4 or 16 bytes of address, 4 of port and 8 of offset, in hexadecimal digits; None for any other text."""
    if len(text) not in (_V4_DIGITS, _V6_DIGITS):
        return None
    try:
        stored = bytes.fromhex(text)
    except ValueError:
        return None
    if len(stored) * 2 != len(text):  # fromhex skips spaces
        return None
    ip = ipaddress.ip_address(stored[:-12])
    port = int.from_bytes(stored[-12:-8], "big")
    host = f"[{ip}]" if ip.version == 6 else str(ip)
    return OffsetId(f"{host}:{port}", int.from_bytes(stored[-8:], "big"))
