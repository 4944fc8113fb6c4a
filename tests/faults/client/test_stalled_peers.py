"""A peer that stands still is given up after the timeout, and read again over a new connection."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import RequestTimeoutError
from tests.faults.client.conftest import MORTAL_COUNT, MORTAL_TOPIC, Mortal, offsets
from tests.faults.client.streams import FRAME_PLACES, MESSAGE_PLACES, EndsWithin
from tests.rocketmq.conftest import LONG_TOPIC, Written, queue
from tests.rocketmq.proxy import Proxied, proxy

TIMEOUT = 0.4
PLACES = {
    name: {**FRAME_PLACES, **MESSAGE_PLACES}[name]
    for name in ("before the frame", "within its length", "within the header", "within a message's body")
}


@pytest.mark.parametrize("place", PLACES)
def test_bytes_that_stop_coming_are_a_timeout_and_a_new_connection_goes_on(written: Written, place: str):
    stall = EndsWithin(3, PLACES[place], stall=True)
    with (
        proxy(written.sandbox.broker_address, stall) as address,
        Proxied(written.sandbox.namesrv, address, timeout=TIMEOUT) as client,
    ):
        begin = time.monotonic()
        assert offsets(client, LONG_TOPIC, 0, 1000) == list(range(1000))
        assert TIMEOUT < time.monotonic() - begin < 10 * TIMEOUT
    assert stall.ended
    assert stall.connections == {0, 1}


def test_bytes_that_stop_coming_are_reported_where_nothing_else_helps(written: Written):
    stall = EndsWithin(0, PLACES["within the header"], stall=True)
    with (
        proxy(written.sandbox.broker_address, stall) as address,
        Proxied(written.sandbox.namesrv, address, timeout=TIMEOUT, attempts=1) as client,
        pytest.raises(
            RequestTimeoutError, match=rf"{address} did not answer within 0.4 s \(\d+ requests in flight\)"
        ),
    ):
        offsets(client, LONG_TOPIC, 0, 1000)


def test_a_trickle_does_not_keep_the_client_for_ever(written: Written):
    """Each byte comes in time, and the answer never ends."""
    gone = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(struct.pack(">i", 1000))
            while not gone.wait(TIMEOUT / 4):
                connection.sendall(b"{")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=trickle, args=(server,), daemon=True).start()
        namesrvs = [f"127.0.0.1:{server.getsockname()[1]}", written.sandbox.namesrv]
        with Client(namesrvs, timeout=TIMEOUT) as client:
            begin = time.monotonic()
            assert len(client.queues("three")) == 3
            assert time.monotonic() - begin < 10 * TIMEOUT
        gone.set()


def test_a_silent_nameserver_is_passed_over(written: Written):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        namesrvs = [f"127.0.0.1:{silent.getsockname()[1]}", written.sandbox.namesrv]
        with Client(namesrvs, timeout=TIMEOUT) as client:
            assert len(client.queues("three")) == 3


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_a_broker_that_pauses_is_waited_for(mortal: Mortal):
    """As in a long garbage collection, or on a suspended machine."""
    with Client([mortal.sandbox.namesrv], "sandbox", timeout=TIMEOUT, pulls_in_flight=2) as client:
        where = queue(client, MORTAL_TOPIC)
        reading = client.read(where, 0, MORTAL_COUNT)
        seen = [m.queue_offset for m in next(reading)]
        with stopped(mortal.sandbox.broker_pid):
            with (
                Client([mortal.sandbox.namesrv], timeout=TIMEOUT, attempts=1) as once,
                pytest.raises(RequestTimeoutError, match="broker broker-a, queue 0: .*did not answer"),
            ):
                once.max_offset(where)
            waker = threading.Timer(2 * TIMEOUT, os.kill, (mortal.sandbox.broker_pid, signal.SIGCONT))
            waker.start()
            seen += [m.queue_offset for batch in reading for m in batch]
            waker.join()
        assert seen == list(range(MORTAL_COUNT))
