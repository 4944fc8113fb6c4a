"""A connection that ends anywhere in the stream costs time, and no message."""

from __future__ import annotations

import pytest

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import ConnectionLostError, UnreachableError
from tests.faults.client.conftest import offsets
from tests.faults.client.streams import FRAME_PLACES, MESSAGE_PLACES, EndsWithin
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, Written, queue
from tests.rocketmq.proxy import Proxied, proxy, through

PLACES = {**FRAME_PLACES, **MESSAGE_PLACES}
START, END = 100, 1100


@pytest.mark.parametrize("answer", [0, 5], ids=["first answer", "later answer"])
@pytest.mark.parametrize("place", PLACES)
def test_a_range_comes_once_and_in_order_wherever_the_stream_is_cut(
    written: Written, place: str, answer: int
):
    cut = EndsWithin(answer, PLACES[place])
    with (
        proxy(written.sandbox.broker_address, cut) as address,
        Proxied(written.sandbox.namesrv, address) as client,
    ):
        assert offsets(client, LONG_TOPIC, START, END) == list(range(START, END))
    assert cut.ended
    assert cut.connections == {0, 1}


@pytest.mark.parametrize("place", FRAME_PLACES)
def test_an_offset_is_asked_for_again_wherever_its_answer_is_cut(written: Written, place: str):
    cut = EndsWithin(1, FRAME_PLACES[place])
    with (
        proxy(written.sandbox.broker_address, cut) as address,
        Proxied(written.sandbox.namesrv, address) as client,
    ):
        where = queue(client, LONG_TOPIC)
        assert (client.min_offset(where), client.max_offset(where), client.max_offset(where)) == (
            0,
            LONG_COUNT,
            LONG_COUNT,
        )
    assert cut.ended


@pytest.mark.parametrize("place", FRAME_PLACES)
def test_a_route_that_is_cut_is_had_from_the_next_nameserver(written: Written, place: str):
    namesrv = written.sandbox.namesrv
    cut = EndsWithin(0, FRAME_PLACES[place])
    with proxy(namesrv, cut) as address, Client([address, namesrv]) as client:
        assert len(client.queues("three")) == 3
    assert cut.ended


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_route_that_is_cut_by_the_only_nameserver_is_asked_for_again(written: Written, attempts: int):
    """And where it may not be, that is an error and no empty topic."""
    cut = EndsWithin(0, FRAME_PLACES["between header and body"])
    with proxy(written.sandbox.namesrv, cut) as address, Client([address], "c1", attempts=attempts) as client:
        if attempts == 1:
            with pytest.raises(
                UnreachableError, match=f"cluster c1, topic three: no nameserver answers: {address}"
            ):
                client.queues("three")
        assert len(client.queues("three")) == 3
    assert cut.ended


@pytest.mark.parametrize("cut_at", [1, 50_000, 1_000_000])
def test_two_breaks_in_a_row_are_survived(written: Written, cut_at: int):
    def cut_first_two(connection: int, sent: int, data: bytes) -> bytes | None:
        return None if connection < 2 and sent + len(data) > cut_at else data

    with (
        proxy(written.sandbox.broker_address, cut_first_two) as address,
        Proxied(written.sandbox.namesrv, address) as client,
    ):
        assert offsets(client, LONG_TOPIC, 0, LONG_COUNT) == list(range(LONG_COUNT))


def test_a_connection_that_always_breaks_is_an_error(written: Written):
    def cut(_connection: int, _sent: int, _data: bytes) -> bytes | None:
        return None

    with (
        proxy(written.sandbox.broker_address, cut) as address,
        Proxied(written.sandbox.namesrv, address, attempts=2) as client,
        pytest.raises(
            ConnectionLostError,
            match=r"topic long, broker broker-a, queue 0: .*reading \[0, 100\) ended before 0",
        ),
    ):
        offsets(client, LONG_TOPIC, 0, 100)


def test_progress_renews_the_attempts(written: Written):
    def cut_every_megabyte(_connection: int, sent: int, data: bytes) -> bytes | None:
        return None if sent > 1_000_000 else data

    with (
        proxy(written.sandbox.broker_address, cut_every_megabyte) as address,
        Proxied(written.sandbox.namesrv, address, attempts=2) as client,
    ):
        assert offsets(client, LONG_TOPIC, 0, LONG_COUNT) == list(range(LONG_COUNT))


def test_what_was_yielded_before_the_break_is_not_yielded_again(written: Written):
    """The reader may have acted on the first list already: the break comes only when it is out."""
    yielded: list[int] = []

    def cut_behind_the_first_list(connection: int, _sent: int, data: bytes) -> bytes | None:
        return None if yielded and connection == 0 else data

    with (
        proxy(written.sandbox.broker_address, cut_behind_the_first_list) as address,
        Client([written.sandbox.namesrv], "sandbox", pulls_in_flight=1) as client,
    ):
        lists = 0
        for batch in client.read(through(queue(client, LONG_TOPIC), address), 0, 2000):
            yielded += [m.queue_offset for m in batch]
            lists += 1
    assert lists > 1
    assert yielded == list(range(2000))
