"""What the client `rocketmq-client-python` cannot do, in the words of the errors that refuse it."""

from __future__ import annotations

from typing import Literal

from ..errors import RocketMQError

ClientName = Literal["remoting", "rocketmq-client-python"]
REMOTING: ClientName = "remoting"
OFFICIAL: ClientName = "rocketmq-client-python"

_OTHERWISE = f"use client = {REMOTING!r} for this cluster"
NO_TLS = f"client = {OFFICIAL!r} cannot speak TLS: remove tls, or {_OTHERWISE}"
NO_TOKEN = f"client = {OFFICIAL!r} cannot send a security token: use keys without one, or {_OTHERWISE}"
NO_FACTS = f"client = {OFFICIAL!r} cannot ask for broker facts: set broker_facts = false for this cluster, or {_OTHERWISE}"
NO_TIME = f"client = {OFFICIAL!r} cannot find the offset of a time: give offsets, or {_OTHERWISE}"
NO_BROKERS = f"client = {OFFICIAL!r} cannot list the registered brokers"
NO_PLATFORM = f"client = {OFFICIAL!r} runs on Linux on x86-64 only: {_OTHERWISE}"


NO_CODEC = (
    f"its body cannot be inflated as zlib, the only codec of client = {OFFICIAL!r}: it is compressed with LZ4 or zstd, or "
    f"damaged. Set zlib in the clients that write it (compressType), or {_OTHERWISE}"
)


class UnsupportedError(RocketMQError):
    """The client `rocketmq-client-python` cannot do or read this. A retry does not help."""


class LibraryError(RocketMQError):
    """The native library is missing, has another interface, or ended its process."""


class UsedAfterForkError(RocketMQError):
    """The client was opened by another process: the threads of the library do not survive a fork."""
