"""Headers in the binary codec (ROCKETMQ), as a real broker writes and reads them."""

from __future__ import annotations

import socket
import struct

import pytest

from sandbox.broker import Sandbox
from spark_jobs.rocketmq import frames, requests
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import split_address
from spark_jobs.rocketmq.errors import TopicNotFoundError
from spark_jobs.rocketmq.route import decode_route
from tests.faults.client.conftest import SEALED_COUNT, SEALED_TOPIC, Sealed, read
from tests.faults.client.streams import recorder
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, Written, queue
from tests.rocketmq.proxy import Proxied, proxy
from tests.rocketmq.wire import binary_payload, decode_messages


def codec(payload: bytes) -> int:
    return payload[0]


def binary_request(code: int, opaque: int, fields: dict[str, str]) -> bytes:
    payload = binary_payload(code, opaque, 0, "", fields)
    return struct.pack(">i", len(payload)) + payload


def ask(address: str, request: bytes) -> bytes:
    """The answer's payload, as it comes."""
    with socket.create_connection(split_address(address), 10) as connection:
        connection.sendall(request)
        stream = connection.makefile("rb")
        return stream.read(frames.frame_length(stream.read(4)))


def pull(topic: str, count: int) -> dict[str, str]:
    return requests.pull(topic, 0, 0, count, requests.TOOLS_CONSUMER)


@pytest.mark.parametrize("encode", [binary_request, frames.encode], ids=["binary", "JSON"])
def test_a_broker_answers_in_the_codec_of_its_own_configuration_whatever_it_was_asked_in(
    written: Written, sealed: Sealed, encode: object
):
    request = encode(requests.GET_MAX_OFFSET, 7, requests.queue_offset(LONG_TOPIC, 0))  # type: ignore[operator]
    assert codec(ask(written.sandbox.broker_address, request)) == frames.JSON_CODEC
    assert codec(ask(sealed.sandbox.broker_address, request)) == frames.BINARY_CODEC


def answers(sandbox: Sandbox, topic: str) -> dict[str, frames.Frame]:
    """What nameserver and broker say to the requests of this project, sent with binary headers."""
    asked = {
        "route": (sandbox.namesrv, requests.GET_ROUTE_INFO_BY_TOPIC, requests.route(topic)),
        "no route": (sandbox.namesrv, requests.GET_ROUTE_INFO_BY_TOPIC, requests.route("nowhere")),
        "max": (sandbox.broker_address, requests.GET_MAX_OFFSET, requests.queue_offset(topic, 0)),
        "time": (
            *(sandbox.broker_address, requests.SEARCH_OFFSET_BY_TIMESTAMP),
            requests.offset_by_time(topic, 0, 0),
        ),
        "pull": (sandbox.broker_address, requests.PULL_MESSAGE, pull(topic, 8)),
        "no queue": (
            *(sandbox.broker_address, requests.PULL_MESSAGE),
            {**pull(topic, 8), "queueId": "99"},
        ),
    }
    return {
        name: frames.decode(ask(address, binary_request(code, 1000 + number, fields)))
        for number, (name, (address, code, fields)) in enumerate(asked.items())
    }


def test_binary_answers_say_what_json_answers_say(written: Written, sealed: Sealed):
    binary, json = answers(sealed.sandbox, SEALED_TOPIC), answers(written.sandbox, LONG_TOPIC)
    for number, name in enumerate(binary):
        assert binary[name].code == json[name].code, name
        assert binary[name].opaque == json[name].opaque == 1000 + number
        assert binary[name].is_response
        assert set(binary[name].fields) == set(json[name].fields), name
    assert binary["max"].fields["offset"] == str(SEALED_COUNT)
    assert json["max"].fields["offset"] == str(LONG_COUNT)
    assert binary["time"].fields["offset"] == "0"
    (found,) = decode_route(SEALED_TOPIC, bytes(binary["route"].body))
    assert found.addresses == ((0, sealed.sandbox.broker_address),)
    pulled = binary["pull"]
    assert (pulled.fields["minOffset"], pulled.fields["maxOffset"]) == ("0", str(SEALED_COUNT))
    assert [m.queue_offset for m in decode_messages(pulled.body)] == list(range(8))
    for name in ("no route", "no queue"):
        assert binary[name].remark
        assert binary[name].remark[:20] == json[name].remark[:20]


def test_a_cluster_that_speaks_only_the_binary_codec_is_read(sealed: Sealed):
    """Every answer on the way, seen by a proxy, is binary."""
    seen: list[bytes] = []
    with (
        proxy(sealed.sandbox.namesrv, recorder(seen)) as namesrv,
        proxy(sealed.sandbox.broker_address, recorder(seen)) as broker,
        Proxied(namesrv, broker) as client,
    ):
        messages = read(client, SEALED_TOPIC, 0, SEALED_COUNT)
        assert client.max_offset(queue(client, SEALED_TOPIC)) == SEALED_COUNT
    assert [int(m.body[:10]) for m in messages] == list(range(SEALED_COUNT))
    assert len(seen) > SEALED_COUNT // 32
    assert {codec(frame[4:]) for frame in seen} == {frames.BINARY_CODEC}
    with Client([sealed.sandbox.namesrv]) as client, pytest.raises(TopicNotFoundError, match="nowhere"):
        client.queues("nowhere")
