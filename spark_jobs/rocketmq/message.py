"""Stored messages: the layout of the commit log, which is also the body of a pull response.

Layout (`MessageDecoder` of Apache RocketMQ): total size 4, magic 4, body CRC 4, queue id 4, flag 4, queue
offset 8, physical offset 8, sysFlag 4, born time 8, born host 8 or 20, store time 8, store host 8 or 20,
reconsume times 4, prepared transaction offset 8, body length 4, body, topic length 1 (or 2, by the magic),
topic, properties length 2, properties. sysFlag 0x10: the born host is IPv6; 0x20: the store host is IPv6.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple
from zlib import crc32

from spark_jobs.rocketmq.errors import MalformedMessageError
from spark_jobs.rocketmq.inflate import COMPRESSED, InflateError, inflate
from spark_jobs.rocketmq.properties import Properties

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
# A batch that the broker stores as one message: both bits are set, and its body contains the messages.
INNER_BATCH = 0x40 | 0x80
MAX_INFLATED_BYTES = 32 * 1024 * 1024

# By (sysFlag >> 4) & 3: whether the born host and the store host have 16 bytes of address instead of 4.
_HEADS = tuple(Struct(f">iiiiiqqiq{born}sq{store}siqi") for store in (8, 20) for born in (8, 20))
_HEAD_V4 = _HEADS[0]
_INNER_HEAD = Struct(">iiiii")
_SHORT = Struct(">h")
_PORT = Struct(">i")
# The same as `Message(…)`, without a Python function call.
_new_tuple = tuple.__new__


class Message(NamedTuple):
    """One message. A named tuple, because creating one costs a third of creating a dataclass.

    Times are ms since 1970 by the clock of their writer: the client for `born_time`, the broker for `store_time`.
    `body_crc` is the broker's CRC32 of the stored body, without its top bit. `body` is inflated; if `body_error` is set,
    it is the stored bytes.
    """

    queue_offset: int
    physical_offset: int
    store_time: int
    born_time: int
    born_host: str
    store_host: str
    sys_flag: int
    body_crc: int
    stored_size: int
    queue_id: int
    flag: int
    reconsume_times: int
    prepared_transaction_offset: int
    topic: str
    properties: Properties
    body: bytes
    body_error: str | None


def inflated(message: Message, max_inflated_bytes: int = MAX_INFLATED_BYTES) -> Message:
    """The message with its body inflated, or with `body_error` if that fails."""
    if not message.sys_flag & COMPRESSED or message.body_error is not None or not message.body:
        return message
    if message.sys_flag & INNER_BATCH == INNER_BATCH:  # `_unwrap` has inflated the batch
        return message
    return _inflate(message, max_inflated_bytes)


def _inflate(message: Message, max_inflated_bytes: int) -> Message:
    try:
        return message._replace(body=inflate(message.body, message.sys_flag, max_inflated_bytes))
    except InflateError as error:
        return message._replace(body_error=str(error))


def malformed(stored: bytes, queue_id: int, queue_offset: int, why: str) -> Message:
    """A placeholder for a malformed message: its body is the stored bytes; unknown fields are 0 or empty."""
    return Message(
        queue_offset, 0, 0, 0, "", "", 0, 0, len(stored), queue_id, 0, 0, 0, "", Properties(b""), stored,
        f"malformed: {why}",
    )  # fmt: skip


def scan_until_malformed(
    stored: bytes, max_inflated_bytes: int, first: int, end: int = sys.maxsize
) -> tuple[list[Message], str]:
    """The messages of `scan_messages` with offsets in [first, end), and the error that ended the scan, or ""."""
    messages: list[Message] = []
    try:
        for message in scan_messages(stored, max_inflated_bytes):
            if first <= message.queue_offset < end:
                messages.append(message)
    except MalformedMessageError as error:
        return messages, str(error)
    return messages, ""


def scan_messages(
    stored: bytes | bytearray | memoryview, max_inflated_bytes: int = MAX_INFLATED_BYTES
) -> Iterator[Message]:
    """Decode consecutive messages, as in the body of a pull response. `inflated` inflates their bodies later.

    A body with a wrong CRC does not raise: its message has `body_error`. A batch stored as one message is unwrapped into
    its messages, at consecutive queue offsets.

    Raises:
        MalformedMessageError: a length or the magic is wrong, so later messages cannot be located.
    """
    stored = bytes(stored)  # no copy of bytes; slices of bytes are cheaper than of a memoryview
    at, end = 0, len(stored)
    hosts, topics = _Hosts(), _Topics()
    while at < end:
        try:
            head = _HEAD_V4
            values = head.unpack_from(stored, at)
            if kind := (values[7] >> 4) & 3:
                head = _HEADS[kind]
                values = head.unpack_from(stored, at)
            (
                size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
                born_time, born_host, store_time, store_host, reconsume_times, prepared, body_size,
            ) = values  # fmt: skip
            body_at = at + head.size
            topic_at = body_at + body_size
            stop = at + size
            if magic == MAGIC_V1:
                topic_size = stored[topic_at]
                topic_at += 1
            elif magic == MAGIC_V2:
                (topic_size,) = _SHORT.unpack_from(stored, topic_at)
                topic_at += 2
            else:
                raise MalformedMessageError(f"magic {magic:#x} is not the magic of a message", at)
            properties_start = topic_at + topic_size
            (properties_size,) = _SHORT.unpack_from(stored, properties_start)
            properties_at = properties_start + 2
            properties_end = properties_at + max(properties_size, 0)
        except (StructError, IndexError) as error:
            raise MalformedMessageError(
                f"the message at byte {at} of {end} is truncated: {error}", at
            ) from None
        if body_size < 0 or topic_size < 0 or not properties_end <= stop <= end:
            raise MalformedMessageError(
                f"the message at byte {at} of {end} has a size of {size} bytes, a body of {body_size}, a topic of "
                f"{topic_size} and properties of {properties_size}",
                at,
            )
        body = stored[body_at : body_at + body_size]
        body_error: str | None = None
        if (computed := crc32(body) & 0x7FFFFFFF) != body_crc:
            body_error = f"crc: stored {body_crc}, computed {computed}"
        fields = (
            queue_offset,
            physical_offset,
            store_time,
            born_time,
            hosts[born_host],
            hosts[store_host],
            sys_flag,
            body_crc,
            size,
            queue_id,
            flag,
            reconsume_times,
            prepared,
            topics[stored[topic_at:properties_start]],
            Properties(stored[properties_at:properties_end]),
            body,
            body_error,
        )
        message = _new_tuple(Message, fields)
        if sys_flag & INNER_BATCH == INNER_BATCH:
            yield from _unwrap(message, max_inflated_bytes)
        else:
            yield message
        at = stop


class _Hosts(dict[bytes, str]):
    """A cache of addresses by packed form: most messages of a response have the same ones."""

    def __missing__(self, packed: bytes) -> str:
        (port,) = _PORT.unpack_from(packed, len(packed) - 4)
        if len(packed) == 8:
            text = f"{packed[0]}.{packed[1]}.{packed[2]}.{packed[3]}:{port}"
        else:
            text = f"[{socket.inet_ntop(socket.AF_INET6, packed[:16])}]:{port}"
        self[packed] = text
        return text


class _Topics(dict[bytes, str]):
    """A cache of topics by stored form."""

    def __missing__(self, stored: bytes) -> str:
        self[stored] = text = stored.decode("utf-8", "replace")
        return text


def _unwrap(batch: Message, max_inflated_bytes: int) -> Iterator[Message]:
    """The messages of a batch: size 4, magic 4, CRC 4, flag 4, body length 4, body, properties length 2, properties.

    A batch with a bad body becomes as many messages as its property INNER_NUM, each with all of its bytes.
    """
    if batch.sys_flag & COMPRESSED and batch.body_error is None:
        batch = _inflate(batch, max_inflated_bytes)
    if batch.body_error is not None:
        count = batch.properties.get("INNER_NUM", "1")
        for index in range(int(count) if count.isdecimal() and len(count) < 6 else 1):
            yield batch._replace(queue_offset=batch.queue_offset + index)
        return
    view = memoryview(batch.body)
    at, index = 0, 0
    while at < len(view):
        try:
            size, _magic, _crc, flag, body_size = _INNER_HEAD.unpack_from(view, at)
            body_at = at + _INNER_HEAD.size
            (properties_size,) = _SHORT.unpack_from(view, body_at + body_size)
            properties_at = body_at + body_size + 2
            properties_end = properties_at + max(properties_size, 0)
        except StructError:
            body_size = -1
        if body_size < 0 or properties_end > at + size or at + size > len(view):
            raise MalformedMessageError(
                f"message {index} of the batch at offset {batch.queue_offset} is truncated"
            )
        yield batch._replace(
            queue_offset=batch.queue_offset + index,
            flag=flag,
            properties=Properties(bytes(view[properties_at:properties_end])),
            body=bytes(view[body_at : body_at + body_size]),
        )
        at, index = at + size, index + 1
