"""Frames: both header codecs, and nothing but ProtocolError for nonsense."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.rocketmq import frames
from spark_jobs.rocketmq.errors import ProtocolError
from tests.rocketmq.wire import binary_payload, json_payload

FIELDS = {"nextBeginOffset": "32", "name": "größer 漢字"}


def test_an_encoded_request_decodes_to_itself():
    data = frames.encode(11, 7, FIELDS, b"body")
    assert frames.frame_length(data) == len(data) - 4
    frame = frames.decode(data[4:])
    assert (frame.code, frame.opaque, frame.fields, bytes(frame.body)) == (11, 7, FIELDS, b"body")
    assert not frame.is_response


@pytest.mark.parametrize(
    "payload",
    [
        json_payload(
            {"code": 17, "opaque": 9, "flag": 1, "remark": "no topic", "extFields": FIELDS}, b"the body"
        ),
        binary_payload(17, 9, 1, "no topic", FIELDS, b"the body"),
    ],
    ids=["json", "binary"],
)
def test_both_codecs_decode_alike(payload: bytes):
    frame = frames.decode(payload)
    assert (frame.code, frame.opaque, frame.remark, frame.fields) == (17, 9, "no topic", FIELDS)
    assert bytes(frame.body) == b"the body"
    assert frame.is_response


def test_a_header_without_fields_and_remark():
    assert frames.decode(json_payload({"code": 0, "opaque": 1, "flag": 1})).fields == {}
    assert frames.decode(binary_payload(0, 1, 1, "", {})).remark == ""


@pytest.mark.parametrize("prefix", [b"HTTP", b"\x15\x03\x03\x00", b"\xff\xff\xff\xff", b"\0\0\0\0"])
def test_another_protocol_is_named_before_memory_is_taken(prefix: bytes):
    with pytest.raises(ProtocolError, match="is this the port of a RocketMQ broker"):
        frames.frame_length(prefix)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise_protocol_error(data: bytes):
    with contextlib.suppress(ProtocolError):
        frames.decode(data)


@given(
    st.sampled_from(
        [json_payload({"code": 0, "opaque": 1, "extFields": FIELDS}), binary_payload(0, 1, 1, "r", FIELDS)]
    ),
    st.data(),
)
def test_a_mutated_frame_decodes_or_raises_protocol_error(payload: bytes, data: st.DataObject):
    mutated = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        frame = frames.decode(mutated[: data.draw(st.integers(0, len(mutated)))])
    except ProtocolError:
        return
    assert isinstance(frame.code, int)
    assert all(isinstance(v, str) for v in frame.fields.values())


def test_lengths_of_binary_fields_are_checked():
    payload = bytearray(binary_payload(0, 1, 1, "", {"a": "b"}))
    at = payload.index(b"\0\x01a") + 3
    payload[at : at + 4] = struct.pack(">i", 1 << 30)
    with pytest.raises(ProtocolError, match="binary header"):
        frames.decode(payload)
