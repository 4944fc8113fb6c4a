"""Stored messages: every field, every codec, both address families, and what is done about damage."""

from __future__ import annotations

import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.rocketmq.errors import MalformedMessageError
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.properties import decode_properties
from tests.rocketmq.wire import MAGIC_V2, decode_messages, inner, stored

BODY = b"Pub\x011795000000000\x01DefaultRegion\x02" * 40
CODECS = {
    0x001: zlib.compress,
    0x301: zlib.compress,
    0x101: lz4.frame.compress,
    0x201: lambda body: zstandard.ZstdCompressor(write_content_size=False).compress(body),
}


def one(data: bytes, **options: int) -> Message:
    (message,) = decode_messages(data, **options)
    return message


def test_every_field():
    data = stored(BODY, offset=42)
    assert one(data) == Message(
        queue_offset=42,
        physical_offset=1_000_042,
        store_time=1_795_000_000_123,
        born_time=1_795_000_000_001,
        born_host="10.0.0.1:4001",
        store_host="10.0.0.2:10911",
        sys_flag=0,
        body_crc=zlib.crc32(BODY) & 0x7FFFFFFF,
        stored_size=len(data),
        queue_id=3,
        flag=5,
        reconsume_times=2,
        prepared_transaction_offset=77,
        topic="topic",
        properties={"KEYS": "a b", "TAGS": "t"},
        body=BODY,
        body_error=None,
    )


@pytest.mark.parametrize(
    ("born", "store"), [("2001:db8::1", "10.0.0.2"), ("10.0.0.1", "2001:db8::2"), ("2001:db8::1", "::1")]
)
def test_ipv6_hosts(born: str, store: str):
    message = one(stored(BODY, born=born, store=store))
    assert message.born_host == (f"[{born}]:4001" if ":" in born else f"{born}:4001")
    assert message.store_host == (f"[{store}]:10911" if ":" in store else f"{store}:10911")
    assert (message.body, message.topic) == (BODY, "topic")


def test_long_topic_of_the_second_version():
    assert one(stored(topic="t" * 200, magic=MAGIC_V2)).topic == "t" * 200


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_codecs(flag: int):
    packed = CODECS[flag](BODY)
    message = one(stored(packed, sys_flag=flag))
    assert (message.body, message.body_error) == (BODY, None)
    assert message.body_crc == zlib.crc32(packed) & 0x7FFFFFFF


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_cut_off_body_keeps_its_stored_bytes(flag: int):
    packed = CODECS[flag](BODY)[:-5]
    message = one(stored(packed, sys_flag=flag))
    assert message.body == packed
    assert message.body_error is not None
    assert message.body_error.startswith("inflate: ")


@pytest.mark.parametrize("flag", CODECS, ids=hex)
def test_a_bomb_is_not_inflated(flag: int):
    packed = CODECS[flag](bytes(200_000_000))
    message = one(stored(packed, sys_flag=flag), max_inflated_bytes=1_000_000)
    assert message.body == packed
    assert message.body_error == "too large: inflates to more than 1000000 bytes (maxInflatedBytes)"


@pytest.mark.parametrize("flag", CODECS, ids=hex)
@pytest.mark.parametrize("size", [9_999, 10_000, 10_001, 3_000_000])
def test_the_limit_is_exact(flag: int, size: int):
    body = bytes(size)
    message = one(stored(CODECS[flag](body), sys_flag=flag), max_inflated_bytes=10_000)
    assert (message.body_error is None) == (size <= 10_000)
    if size <= 10_000:
        assert message.body == body


def test_unknown_codec():
    message = one(stored(b"abc", sys_flag=0x401))
    assert message.body_error == "inflate: unknown codec 0x400 in sysFlag 0x401"


def test_wrong_crc_keeps_the_stored_bytes_and_says_both():
    packed = zlib.compress(BODY)
    message = one(stored(packed, sys_flag=1, crc=12))
    assert message.body == packed
    assert message.body_error == f"crc: stored 12, computed {zlib.crc32(packed) & 0x7FFFFFFF}"


def test_a_bad_body_does_not_cost_its_neighbours():
    data = (
        stored(offset=1) + stored(offset=2, crc=0) + stored(b"junk", offset=3, sys_flag=1) + stored(offset=4)
    )
    messages = list(decode_messages(data))
    assert [m.queue_offset for m in messages] == [1, 2, 3, 4]
    assert [m.body_error is None for m in messages] == [True, False, False, True]


def test_empty_body_and_no_properties():
    message = one(stored(b"", properties="", sys_flag=1))
    assert (message.body, message.properties, message.body_error) == (b"", {}, None)


def test_a_batch_kept_as_one_message_comes_apart():
    body = inner(b"a", "KEYS\x01x\x02", 9) + inner(b"") + inner(b"ccc")
    messages = list(decode_messages(stored(zlib.compress(body), offset=100, sys_flag=0xC1)))
    assert [(m.queue_offset, m.body, m.flag) for m in messages] == [
        (100, b"a", 9),
        (101, b"", 0),
        (102, b"ccc", 0),
    ]
    assert messages[0].properties == {"KEYS": "x"}


def test_a_damaged_batch_fills_its_offsets():
    data = stored(b"junk", offset=100, sys_flag=0xC0, crc=1, properties="INNER_NUM\x013\x02")
    assert [(m.queue_offset, m.body) for m in decode_messages(data)] == [
        (n, b"junk") for n in (100, 101, 102)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b\x01c\x02d\x01\x02", {"a": "b\x01c", "d": ""}),
        ("junk\x02a\x01b\x02\x02c\x01d", {"a": "b", "c": "d"}),
    ],
)
def test_properties(text: str, expected: dict[str, str]):
    assert decode_properties(text) == expected


def test_invalid_utf8_is_replaced_and_not_fatal():
    data = bytearray(stored(properties="KEYS\x01aXb\x02"))
    data[data.index(b"aXb") + 1] = 0xFF
    assert one(bytes(data)).properties == {"KEYS": "a\ufffdb"}


@pytest.mark.parametrize("cut", [1, 20, 87, 90, 100])
def test_a_cut_off_message_says_where(cut: int):
    data = stored(BODY)
    messages = decode_messages(data + data[:cut])
    assert next(messages).body == BODY
    with pytest.raises(MalformedMessageError) as caught:
        next(messages)
    assert caught.value.at == len(data)


@settings(max_examples=400)
@given(st.sampled_from(sorted(CODECS)), st.data())
def test_mutated_messages_decode_or_raise_malformed(flag: int, data: st.DataObject):
    """A changed byte is a MalformedMessageError or a body_error, or it is outside the body; never anything else."""
    original = stored(CODECS[flag](BODY), sys_flag=flag)
    mutated = bytearray(original + original)
    for _ in range(data.draw(st.integers(1, 3))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(len(mutated) - 3, len(mutated)))
    try:
        messages = list(decode_messages(mutated[:cut], 100_000))
    except MalformedMessageError:
        return
    for message in messages:
        assert isinstance(message.body, bytes)
        if message.body_error is None and message.sys_flag == flag and message.body_crc != 0:
            assert message.body == BODY or len(message.body) < 10
