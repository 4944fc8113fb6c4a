"""Networks break, brokers die, bytes rot: the range comes whole, or an error comes."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from sandbox.broker import rocketmq
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import ConnectionLost, RocketMQError
from spark_jobs.rocketmq.route import Queue
from tests.rocketmq.conftest import BUSY_MACHINE, LONG_COUNT, LONG_TOPIC, MARK, Written, bodies, queue
from tests.rocketmq.java_client import run
from tests.rocketmq.proxy import Tamper, proxy

COUNT = 5000


def unchanged(_connection: int, _sent: int, data: bytes) -> bytes | None:
    return data


def through(where: Queue, address: str) -> Queue:
    return replace(where, addresses=((0, address),))


class Fixed(Client):
    """A client whose fresh routes still lead through the proxy."""

    def __init__(self, namesrv: str, address: str, **options: float) -> None:
        super().__init__([namesrv], "sandbox", **options)  # type: ignore[arg-type]
        ask = self._brokers.queues
        self._brokers.queues = lambda topic: [through(q, address) for q in ask(topic)]  # type: ignore[method-assign]


def offsets(client: Client, topic: str, start: int, end: int) -> list[int]:
    return [m.queue_offset for batch in client.read(queue(client, topic), start, end) for m in batch]


@pytest.mark.parametrize("cut_at", [1, 50_000, 1_000_000])
def test_a_connection_that_breaks_is_made_anew(written: Written, cut_at: int):
    def cut_first_two(connection: int, sent: int, data: bytes) -> bytes | None:
        return None if connection < 2 and sent + len(data) > cut_at else data

    with (
        proxy(written.sandbox.broker_address, cut_first_two) as address,
        Fixed(written.sandbox.namesrv, address) as client,
    ):
        assert offsets(client, LONG_TOPIC, 0, LONG_COUNT) == list(range(LONG_COUNT))


def test_a_connection_that_always_breaks_is_an_error(written: Written):
    def cut(_connection: int, sent: int, data: bytes) -> bytes | None:
        return None

    with (
        proxy(written.sandbox.broker_address, cut) as address,
        Fixed(written.sandbox.namesrv, address, attempts=2) as client,
        pytest.raises(
            ConnectionLost, match=r"topic long, broker broker-a, queue 0: .*reading \[0, 100\) ended before 0"
        ),
    ):
        offsets(client, LONG_TOPIC, 0, 100)


def test_progress_renews_the_attempts(written: Written):
    def cut_every_megabyte(_connection: int, sent: int, data: bytes) -> bytes | None:
        return None if sent > 1_000_000 else data

    with (
        proxy(written.sandbox.broker_address, cut_every_megabyte) as address,
        Fixed(written.sandbox.namesrv, address, attempts=2) as client,
    ):
        assert offsets(client, LONG_TOPIC, 0, LONG_COUNT) == list(range(LONG_COUNT))


def flip(times: int) -> tuple[Tamper, list[int]]:
    """Damage the marked body on its first `times` ways through; also says on which connections."""
    seen: list[int] = []

    def tamper(connection: int, _sent: int, data: bytes) -> bytes | None:
        if MARK in data and len(seen) < times:
            seen.append(connection)
            return data.replace(MARK, MARK[:-1] + b"?")
        return data

    return tamper, seen


def test_a_wrong_crc_is_read_again_over_a_new_connection(written: Written):
    tamper, seen = flip(1)
    with (
        proxy(written.sandbox.broker_address, tamper) as address,
        Fixed(written.sandbox.namesrv, address) as client,
    ):
        messages = [m for b in client.read(queue(client, "codec-NONE"), 0, len(bodies())) for m in b]
    assert seen == [0]
    assert [m.body for m in messages] == bodies()
    assert {m.body_error for m in messages} == {None}


def test_a_crc_that_stays_wrong_is_told_and_costs_no_neighbour(written: Written):
    tamper, seen = flip(100)
    with (
        proxy(written.sandbox.broker_address, tamper) as address,
        Fixed(written.sandbox.namesrv, address) as client,
    ):
        messages = [m for b in client.read(queue(client, "codec-NONE"), 0, len(bodies())) for m in b]
    at = bodies().index(MARK)
    assert seen == [0, 1]
    assert messages[at].body == MARK[:-1] + b"?"
    assert (messages[at].body_error or "").startswith("crc: stored ")
    assert [m.body for m in messages if m.body_error is None] == [b for b in bodies() if b != MARK]


def test_throughput_does_not_collapse_with_the_round_trip(written: Written):
    """20,000 messages are 625 pulls: at 40 ms each, one after the other they would take 25 s."""
    with (
        proxy(written.sandbox.broker_address, unchanged, delay=0.02) as address,
        Fixed(written.sandbox.namesrv, address) as client,
    ):
        begin = time.monotonic()
        assert offsets(client, LONG_TOPIC, 0, LONG_COUNT) == list(range(LONG_COUNT))
        assert time.monotonic() - begin < 5


def test_a_slave_takes_over_and_without_it_there_is_an_error(tmp_path_factory: pytest.TempPathFactory):
    """The master is killed in mid-read: its slave goes on. Both are: an error. The master is back: it goes on."""
    folder = tmp_path_factory.mktemp("killed")
    # What a killed process has written to its mapped files is in them, flushed or not.
    master_conf = BUSY_MACHINE
    slave_conf = {"brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
    with rocketmq(folder / "master", extra_broker_conf=master_conf, stop_in_order=False) as master:
        # Before the slave starts, which takes over the topics then, and later only now and again.
        run(master.namesrv, folder / "java", [{"do": "produce", "topic": "t", "count": COUNT, "size": 100}])
        with (
            rocketmq(
                folder / "slave", extra_broker_conf=slave_conf, join=master.namesrv, stop_in_order=False
            ) as slave,
            Client([master.namesrv], "sandbox", pulls_in_flight=2) as client,
        ):
            where = wait_for_slave(master.namesrv, slave.broker_address)
            reading = client.read(where, 0, COUNT)
            seen = [m.queue_offset for m in next(reading)]
            master.kill_broker()
            seen += [m.queue_offset for batch in reading for m in batch]
            assert seen == list(range(COUNT))
            assert (client.min_offset(where), client.max_offset(where)) == (0, COUNT)
            reading = client.read(where, 0, COUNT)
            seen = [m.queue_offset for m in next(reading)]
            slave.kill_broker()
            with pytest.raises(RocketMQError, match=rf"reading \[0, {COUNT}\) ended before"):
                seen += [m.queue_offset for batch in reading for m in batch]
            assert seen == list(range(len(seen)))
            assert len(seen) < COUNT
            with pytest.raises(ConnectionLost):
                client.max_offset(where)

        with Client([master.namesrv], "sandbox", attempts=60) as patient:
            back = threading.Thread(target=master.start_broker)
            back.start()
            seen += [m.queue_offset for batch in patient.read(where, len(seen), COUNT) for m in batch]
            back.join()
        assert seen == list(range(COUNT))


def wait_for_slave(namesrv: str, address: str) -> Queue:
    """The queue once its slave is in the route, knows the topic and has every message."""
    give_up = time.monotonic() + 120
    with Client([namesrv], attempts=1) as once:
        while time.monotonic() < give_up:
            where = queue(once, "t")
            alone = replace(where, addresses=((1, address),))
            with suppress(RocketMQError):
                if (1, address) in where.addresses and once.pull(alone, COUNT - 1).messages:
                    return where
            time.sleep(0.2)
    raise AssertionError(f"the slave did not catch up: {where}")
