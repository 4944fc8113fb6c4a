"""Nameservers die: one that is left is enough, and what is known already can be read without any."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sandbox import registration
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import UnreachableError
from tests.faults.client.conftest import MORTAL_COUNT, MORTAL_TOPIC, Mortal, offsets
from tests.faults.client.streams import MESSAGE_PLACES, EndsWithin
from tests.rocketmq.conftest import queue
from tests.rocketmq.proxy import proxy, through

EVERY = list(range(MORTAL_COUNT))


@pytest.fixture
def first_dead(mortal: Mortal) -> Iterator[Mortal]:
    """Only the second nameserver lives."""
    wait_for_route(mortal, mortal.second.namesrv)
    mortal.sandbox.nameserver.stop()
    yield mortal
    mortal.sandbox.nameserver.start()
    wait_for_route(mortal, mortal.sandbox.namesrv)


@pytest.fixture
def both_dead(first_dead: Mortal) -> Iterator[Mortal]:
    first_dead.second.nameserver.stop()
    yield first_dead
    first_dead.second.nameserver.start()


def wait_for_route(mortal: Mortal, namesrv: str) -> None:
    while not registration.serves(namesrv, MORTAL_TOPIC, mortal.sandbox.broker_address):
        registration.register_now(mortal.sandbox.broker_address)


@pytest.mark.parametrize("order", [1, -1], ids=["dead first", "dead last"])
def test_one_of_two_is_enough(first_dead: Mortal, order: int):
    with Client(first_dead.namesrvs[::order], "sandbox") as client:
        assert offsets(client, MORTAL_TOPIC, 0, MORTAL_COUNT) == EVERY


def test_one_that_dies_under_a_client_that_has_asked_it_before_is_passed_over(mortal: Mortal):
    with Client(mortal.namesrvs, "sandbox") as client:
        assert len(client.queues(MORTAL_TOPIC)) == 1  # keeps a connection to each
        wait_for_route(mortal, mortal.second.namesrv)
        mortal.sandbox.nameserver.stop()
        try:
            assert len(client.queues(MORTAL_TOPIC)) == 1
        finally:
            mortal.sandbox.nameserver.start()
            wait_for_route(mortal, mortal.sandbox.namesrv)
        assert len(client.queues(MORTAL_TOPIC)) == 1


def test_where_all_are_dead_the_error_names_each(both_dead: Mortal):
    first, second = map(re.escape, both_dead.namesrvs)
    with (
        Client(both_dead.namesrvs, "prod") as client,
        pytest.raises(
            UnreachableError,
            match=f"cluster prod, topic mortal: no nameserver answers: .*{first}.*{second}.*Check the addresses",
        ),
    ):
        client.queues(MORTAL_TOPIC)


def test_who_has_the_route_reads_on_without_any_and_survives_a_lost_connection(mortal: Mortal):
    cut = EndsWithin(5, MESSAGE_PLACES["within a message's body"])
    with (
        proxy(mortal.sandbox.broker_address, cut) as address,
        Client(mortal.namesrvs, "sandbox", pulls_in_flight=2) as client,
    ):
        where = through(queue(client, MORTAL_TOPIC), address)
        reading = client.read(where, 0, MORTAL_COUNT)
        seen = [m.queue_offset for m in next(reading)]
        mortal.sandbox.nameserver.stop()
        mortal.second.nameserver.stop()
        try:
            seen += [m.queue_offset for batch in reading for m in batch]
            assert client.max_offset(where) == MORTAL_COUNT
        finally:
            mortal.sandbox.nameserver.start()
            mortal.second.nameserver.start()
            wait_for_route(mortal, mortal.sandbox.namesrv)
    assert seen == EVERY
    assert cut.connections >= {0, 1}
