"""Inflate message bodies up to a maximum size: a small body that inflates to gigabytes does not exhaust the memory.

The codec is in the sysFlag (`MessageSysFlag` of Apache RocketMQ 5.x). Bit 0x001: the body is compressed. Bits 0x700:
0x000 and 0x300 zlib, 0x100 LZ4 (frame format), 0x200 zstd. Clients before 5.0 write zlib only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame
import zstandard

COMPRESSED = 0x001
CODEC_BITS = 0x700
# By codec: its name, its decompressor, and how many bytes are inflated between two checks of the size. So many zlib and
# LZ4 bytes become at most 4 MiB, zstd bytes 32 MiB: its densest block inflates 4 bytes to 128 KiB.
_ZLIB = ("zlib", zlib.decompressobj, 4 * 1024)
_CODECS: dict[int, tuple[str, Callable[[], Any], int]] = {
    0x000: _ZLIB,
    0x100: ("lz4", lz4.frame.LZ4FrameDecompressor, 16 * 1024),
    0x200: ("zstd", lambda: zstandard.ZstdDecompressor().decompressobj(), 1024),
    0x300: _ZLIB,
}


class InflateError(Exception):
    """The body cannot be inflated; the text is the message's `body_error`."""


def inflate(stored: bytes, sys_flag: int, max_bytes: int) -> bytes:
    """The inflated body.

    Args:
        stored: the body as the broker stores it.
        sys_flag: the message's sysFlag, with bit 0x001 set.
        max_bytes: the maximum size of the result.

    Raises:
        InflateError: `inflate: <codec>: …` if the bytes are not valid or truncated, `too large: …` if the result is larger
            than `max_bytes`.
    """
    bits = sys_flag & CODEC_BITS
    if bits not in _CODECS:
        raise InflateError(f"inflate: unknown codec 0x{bits:03x} in sysFlag 0x{sys_flag:x}")
    codec, decompressor, at_once = _CODECS[bits]
    pieces: list[bytes] = []
    size, at = 0, 0
    try:
        inflater = decompressor()
        while at < len(stored) and not inflater.eof:
            pieces.append(inflater.decompress(stored[at : at + at_once]))
            at += at_once
            size += len(pieces[-1])
            if size > max_bytes:
                raise InflateError(f"too large: inflates to more than {max_bytes} bytes (maxInflatedBytes)")
        if not inflater.eof:
            raise EOFError("the stream is truncated")
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError, MemoryError) as error:
        raise InflateError(f"inflate: {codec}: {error}") from None
    return b"".join(pieces)
