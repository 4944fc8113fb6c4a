"""The client against a real broker: what the Java client wrote comes back, exactly, and errors have names."""

from __future__ import annotations

import base64
import socket
import threading
import time
from dataclasses import replace

import pytest

from spark_jobs.rocketmq.client import Bounds, Client
from spark_jobs.rocketmq.connection import Tls
from spark_jobs.rocketmq.errors import (
    OffsetMovedError,
    ProtocolError,
    QueueNotFoundError,
    ShortRangeError,
    TopicNotFoundError,
    UnreachableError,
)
from spark_jobs.rocketmq.inflate import COMPRESSED
from spark_jobs.rocketmq.message import Message
from tests.rocketmq.conftest import CODECS, LONG_COUNT, LONG_TOPIC, Written, queue


def read(client: Client, topic: str, start: int, end: int, queue_id: int = 0) -> list[Message]:
    return [m for batch in client.read(queue(client, topic, queue_id), start, end) for m in batch]


@pytest.mark.parametrize("codec", CODECS)
def test_bodies_come_back_as_they_were_sent(client: Client, written: Written, codec: str):
    messages = read(client, f"codec-{codec}", 0, len(written.bodies))
    assert [m.body for m in messages] == written.bodies
    assert [m.queue_offset for m in messages] == list(range(len(written.bodies)))
    flag = {"NONE": 0, "ZLIB": 0x301, "LZ4": 0x101, "ZSTD": 0x201}[codec]
    assert {m.sys_flag for m in messages} == {flag}
    assert {m.body_error for m in messages} == {None}


@pytest.mark.parametrize("codec", CODECS)
def test_every_field_is_what_the_java_client_reads(client: Client, written: Written, codec: str):
    expected = written.as_java_reads[codec]
    assert expected
    messages = read(client, f"codec-{codec}", 0, len(expected))
    for message, java in zip(messages, expected, strict=True):
        ours = {**message._asdict(), "body": base64.b64encode(message.body).decode()}
        ours["sys_flag"] &= ~COMPRESSED  # the Java client drops it from what it has inflated
        assert {name: ours[name] for name in java} == java


def test_a_queue_read_in_many_ranges_is_the_queue_read_in_one(client: Client):
    whole = read(client, LONG_TOPIC, 0, LONG_COUNT)
    assert [int(m.body[:10]) for m in whole] == [m.queue_offset for m in whole] == list(range(LONG_COUNT))
    cuts = [0, 1, 2, 33, 1000, 1031, 7777, LONG_COUNT - 1, LONG_COUNT]
    parts = [read(client, LONG_TOPIC, a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    assert [m for part in parts for m in part] == whole


@pytest.mark.parametrize("in_flight", [1, 2, 200])
def test_any_number_of_pulls_in_flight_reads_the_same(written: Written, in_flight: int):
    with Client([written.sandbox.namesrv], pulls_in_flight=in_flight) as client:
        assert [m.queue_offset for m in read(client, LONG_TOPIC, 100, 5000)] == list(range(100, 5000))


def test_offsets_and_queues(client: Client):
    queues = client.queues("three")
    assert [(q.broker, q.queue_id, q.readable) for q in queues] == [("broker-a", n, True) for n in range(3)]
    assert [client.min_offset(q) for q in queues] == [0, 0, 0]
    assert [client.max_offset(q) for q in queues] == [1000, 0, 10]
    assert [client.bounds(q) for q in queues] == [Bounds(0, n, from_master=True) for n in (1000, 0, 10)]


def test_offset_at_is_the_first_message_stored_at_or_after(client: Client):
    where = queue(client, LONG_TOPIC)
    messages = read(client, LONG_TOPIC, 0, LONG_COUNT)
    times = [m.store_time for m in messages]
    for wanted in (times[0] - 1000, times[0], times[LONG_COUNT // 2], times[-1]):
        expected = next(n for n, t in enumerate(times) if t >= wanted)
        assert client.offset_at(where, wanted) == expected
    assert client.offset_at(where, times[-1] + 1) == LONG_COUNT


def test_message_at_is_what_read_gives(client: Client):
    where = queue(client, LONG_TOPIC)
    message = client.message_at(where, 777)
    assert [message] == read(client, LONG_TOPIC, 777, 778)
    assert message is not None
    assert message.queue_offset == 777
    assert client.message_at(where, LONG_COUNT) is None
    assert client.message_at(where, LONG_COUNT + 1000) is None
    assert client.message_at(queue(client, "three", 1), 0) is None


def test_one_pull_gives_the_bounds_too(client: Client):
    pulled = client.pull(queue(client, LONG_TOPIC), 5, 3)
    assert [m.queue_offset for m in pulled.messages] == [5, 6, 7]
    assert (pulled.min_offset, pulled.max_offset) == (0, LONG_COUNT)
    assert client.pull(queue(client, LONG_TOPIC), LONG_COUNT).messages == []


def test_an_empty_range_sends_no_request(client: Client):
    assert list(client.read(replace(queue(client, "three"), addresses=()), 5, 5)) == []


def test_a_range_beyond_the_end_raises(client: Client):
    with pytest.raises(ShortRangeError, match=r"at offset 1000 .*\[0, 1000\)") as caught:
        read(client, "three", 990, 1001)
    assert caught.value.offset == 1000


def test_a_range_far_beyond_the_end_raises_with_the_bounds(client: Client):
    with pytest.raises(OffsetMovedError, match=r"reading \[5000, 5001\)") as caught:
        read(client, "three", 5000, 5001)
    assert (caught.value.min_offset, caught.value.max_offset) == (0, 1000)


def test_unknown_topic(client: Client):
    with pytest.raises(TopicNotFoundError, match="cluster sandbox, topic nowhere"):
        client.queues("nowhere")
    nowhere = replace(queue(client, "three"), topic="nowhere")
    with pytest.raises(TopicNotFoundError, match="topic nowhere, broker broker-a, queue 0"):
        list(client.read(nowhere, 0, 1))


def test_unknown_queue(client: Client):
    with pytest.raises(QueueNotFoundError, match="broker broker-a, queue 9"):
        list(client.read(replace(queue(client, "three"), queue_id=9), 0, 1))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_dead_nameserver_is_passed_over(written: Written):
    with Client([f"127.0.0.1:{free_port()}", written.sandbox.namesrv]) as client:
        assert len(client.queues("three")) == 3


def test_no_nameserver_at_all_is_not_an_empty_topic():
    with (
        Client([f"127.0.0.1:{free_port()}"], "c1") as client,
        pytest.raises(UnreachableError, match="cluster c1"),
    ):
        client.queues("three")


def test_a_broker_that_is_away_is_reported_per_queue(client: Client):
    away = replace(queue(client, "three"), broker="gone", addresses=((0, f"127.0.0.1:{free_port()}"),))
    with pytest.raises(UnreachableError, match="broker gone.*Check that the broker runs"):
        client.max_offset(away)


def test_something_else_behind_the_port():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with (
            Client([f"127.0.0.1:{server.getsockname()[1]}"]) as client,
            pytest.raises(ProtocolError, match="HTTP"),
        ):
            client.queues("three")


def test_a_silent_peer_times_out():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        begin = time.monotonic()
        with (
            Client([address], timeout=0.3, attempts=1) as client,
            pytest.raises(UnreachableError, match="did not answer within 0.3"),
        ):
            client.queues("three")
        assert time.monotonic() - begin < 3


def test_tls_with_a_certificate_that_is_not_checked(written: Written):
    with Client([written.sandbox.namesrv], tls=Tls(verify=False)) as client:
        assert [m.queue_offset for m in read(client, LONG_TOPIC, 0, 3000)] == list(range(3000))


def test_tls_with_a_certificate_that_nobody_signed(written: Written):
    with (
        Client([written.sandbox.namesrv], tls=Tls()) as client,
        pytest.raises(UnreachableError, match="certificate verify failed"),
    ):
        client.queues("three")
