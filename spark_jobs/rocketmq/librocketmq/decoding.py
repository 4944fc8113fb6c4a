"""From a message of the library to the `Message` that the remoting client returns, or an error for what was lost."""

from __future__ import annotations

from zlib import crc32

from ..inflate import CODEC_BITS, COMPRESSED
from ..message import INNER_BATCH
from .bindings import Library, host_of
from .limits import NO_CODEC, OFFICIAL, UnsupportedError

_ZLIB = (0x000, 0x300)
_IPV6 = 0x10 | 0x20
# What a stored message has beside body, topic and properties: its 88 bytes of numbers, and the lengths of topic and properties.
_FIXED_BYTES = 88 + 1 + 2
# The library adds these two to the properties of every message that it pulls.
_ADDED = (b"MIN_OFFSET\x01", b"MAX_OFFSET\x01")

Fields = tuple[int | str | bytes | None, ...]


class LostError(Exception):
    """The library has not returned the message as it is stored; the text says what differs."""


def fields_of(library: Library, message: int, topic: str, max_inflated_bytes: int) -> Fields:
    """The fields of `Message`, in its order; the properties as bytes, sorted by name.

    Args:
        library: has pulled the message.
        message: its address.
        topic: as requested.
        max_inflated_bytes: maximum size of a body.

    Raises:
        UnsupportedError: the library cannot read such a message.
        LostError: the message differs from the stored one, by its size or its CRC.
    """
    sys_flag = library._ZNK8rocketmq9MQMessage10getSysFlagEv(message)
    refuse_unreadable(sys_flag)
    found = (library.GetMessageTopic(message) or b"").decode("utf-8", "replace")
    if found != topic:  # a topic of more than 127 bytes is stored with a longer length
        raise LostError(f"its topic is read as {found[:100]!r}")
    body = library.body(message)
    pieces = library.properties(message).split(b"\x02")
    properties = b"\x02".join(piece for piece in pieces if piece and not piece.startswith(_ADDED))
    stored_size = library.GetMessageStoreSize(message)
    body_crc = library._ZNK8rocketmq12MQMessageExt10getBodyCRCEv(message)
    stored_body = stored_size - _FIXED_BYTES - len(topic.encode()) - len(properties)
    body_error = None
    if sys_flag & COMPRESSED and (body or stored_body > 1):
        if not body:
            raise LostError("its body could not be inflated")
        if len(body) > max_inflated_bytes:
            raise UnsupportedError(
                f"its body inflates to more than {max_inflated_bytes} bytes (maxInflatedBytes), and "
                f"client = {OFFICIAL!r} does not return it as stored: raise the limit"
            )
        if stored_body < 1:
            raise LostError(f"its {stored_size} stored bytes do not hold its properties")
    else:
        # Java clients before 4.9 end the properties with a separator.
        if stored_body - len(body) not in (0, 1):
            raise LostError(
                f"of its {stored_size} stored bytes {stored_body - len(body)} are in no field: a body or a property was cut"
            )
        if (computed := crc32(body) & 0x7FFFFFFF) != body_crc:
            body_error = f"crc: stored {body_crc}, computed {computed}"
    return (
        library.GetMessageQueueOffset(message),
        library.GetMessageCommitLogOffset(message),
        library.GetMessageStoreTimestamp(message),
        library.GetMessageBornTimestamp(message),
        host_of(library._ZNK8rocketmq12MQMessageExt11getBornHostEv(message)),
        host_of(library._ZNK8rocketmq12MQMessageExt12getStoreHostEv(message)),
        sys_flag,
        body_crc,
        stored_size,
        library.GetMessageQueueId(message),
        library._ZNK8rocketmq9MQMessage7getFlagEv(message),
        library.GetMessageReconsumeTimes(message),
        library.GetMessagePreparedTransactionOffset(message),
        topic,
        properties,
        body,
        body_error,
    )


def refuse_unreadable(sys_flag: int) -> None:
    """Raises UnsupportedError for a message that the library decodes wrongly, by its sysFlag."""
    if sys_flag & _IPV6:
        raise UnsupportedError(f"client = {OFFICIAL!r} cannot read a message with an IPv6 address")
    if sys_flag & INNER_BATCH == INNER_BATCH:
        raise UnsupportedError(f"client = {OFFICIAL!r} cannot read a batch that is stored as one message")
    if sys_flag & COMPRESSED and sys_flag & CODEC_BITS not in _ZLIB:
        raise UnsupportedError(NO_CODEC)
