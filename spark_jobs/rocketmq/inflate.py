"""Inflate message bodies up to a maximum size: a small body that inflates to gigabytes does not exhaust the memory.

The codec is in the sysFlag (`MessageSysFlag` of Apache RocketMQ 5.x). Bit 0x001: the body is compressed. Bits 0x700:
0x000 and 0x300 zlib, 0x100 LZ4 (frame format), 0x200 zstd. Clients before 5.0 write zlib only.
"""

from __future__ import annotations

import zlib

import lz4.frame
import zstandard

COMPRESSED = 0x001
CODEC_BITS = 0x700
_CODECS = {0x000: "zlib", 0x100: "lz4", 0x200: "zstd", 0x300: "zlib"}
# The maximum compression ratio of DEFLATE, so short bodies need no size check.
_ZLIB_RATIO = 1032
# The densest zstd block inflates 4 bytes to 128 KiB: this many bytes inflate to at most 32 MiB between two checks.
_ZSTD_PIECE = 1024
_LZ4_CHUNK = 256 * 1024


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
    codec = _CODECS.get(sys_flag & CODEC_BITS)
    try:
        if codec == "zlib":
            return _zlib(stored, max_bytes)
        if codec == "zstd":
            return _zstd(stored, max_bytes)
        if codec == "lz4":
            return _lz4(stored, max_bytes)
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError, MemoryError) as error:
        raise InflateError(f"inflate: {codec}: {error}") from None
    raise InflateError(f"inflate: unknown codec 0x{sys_flag & CODEC_BITS:03x} in sysFlag 0x{sys_flag:x}")


def _too_large(max_bytes: int) -> InflateError:
    return InflateError(f"too large: inflates to more than {max_bytes} bytes (maxInflatedBytes)")


def _zlib(stored: bytes, max_bytes: int) -> bytes:
    if len(stored) * _ZLIB_RATIO <= max_bytes:
        return zlib.decompress(stored)
    inflater = zlib.decompressobj()
    body = inflater.decompress(stored, max_bytes + 1)
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    if not inflater.eof:
        raise EOFError("the stream is truncated")
    return body


def _lz4(stored: bytes, max_bytes: int) -> bytes:
    inflater = lz4.frame.LZ4FrameDecompressor()
    pieces = [inflater.decompress(stored, max_length=_LZ4_CHUNK)]
    size = len(pieces[0])
    while not inflater.eof and not inflater.needs_input and size <= max_bytes:
        pieces.append(inflater.decompress(b"", max_length=_LZ4_CHUNK))
        size += len(pieces[-1])
    if size > max_bytes:
        raise _too_large(max_bytes)
    if not inflater.eof:
        raise EOFError("the frame is truncated")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _zstd(stored: bytes, max_bytes: int) -> bytes:
    inflater = zstandard.ZstdDecompressor().decompressobj()
    pieces: list[bytes] = []
    size, at = 0, 0
    while at < len(stored) and not inflater.eof:
        pieces.append(inflater.decompress(stored[at : at + _ZSTD_PIECE]))
        at += _ZSTD_PIECE
        size += len(pieces[-1])
        if size > max_bytes:
            raise _too_large(max_bytes)
    if not inflater.eof:
        raise EOFError("the frame is truncated")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
