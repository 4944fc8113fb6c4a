"""Brokers die: the range comes whole from whoever is left or comes back, or one clear error comes."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from sandbox.broker import rocketmq
from spark_jobs.rocketmq.client import Bounds, Client
from spark_jobs.rocketmq.errors import ConnectionLostError, RocketMQError
from spark_jobs.rocketmq.route import MessageQueue
from tests.faults.client.conftest import MORTAL_COUNT, MORTAL_TOPIC, Mortal, read
from tests.rocketmq.conftest import BUSY_MACHINE, queue
from tests.rocketmq.java_client import run

COUNT = 5000


def test_a_killed_master_is_one_clear_error_and_read_on_when_it_is_back(mortal: Mortal):
    namesrv = mortal.sandbox.namesrv
    with Client([namesrv], "sandbox") as client:
        before = read(client, MORTAL_TOPIC, 0, MORTAL_COUNT)
    assert [m.queue_offset for m in before] == list(range(MORTAL_COUNT))

    with Client([namesrv], "sandbox", attempts=2, pulls_in_flight=2) as client:
        where = queue(client, MORTAL_TOPIC)
        reading = client.read(where, 0, MORTAL_COUNT)
        seen = list(next(reading))
        mortal.sandbox.broker.kill()
        with pytest.raises(
            ConnectionLostError,
            match=rf"cluster sandbox, topic mortal, broker broker-a, queue 0: .*{mortal.sandbox.broker_address}"
            rf".*reading \[0, {MORTAL_COUNT}\) ended before \d+",
        ):
            seen.extend(m for batch in reading for m in batch)
        assert 0 < len(seen) < MORTAL_COUNT

    with Client([namesrv], "sandbox", attempts=60) as patient:
        back = threading.Thread(target=mortal.sandbox.broker.start)
        back.start()
        for batch in patient.read(where, len(seen), MORTAL_COUNT):
            seen += batch
        back.join()
    assert seen == before


def test_a_slave_takes_over_and_without_it_there_is_an_error(tmp_path_factory: pytest.TempPathFactory):
    """The master is killed in mid-read: its slave goes on, and says that it is one. Both are: an error."""
    folder = tmp_path_factory.mktemp("killed")
    slave_conf = {"brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
    with rocketmq(folder / "master", extra_broker_conf=BUSY_MACHINE, stop_in_order=False) as master:
        run(master.namesrv, folder / "java", [{"do": "produce", "topic": "t", "count": COUNT, "size": 100}])
        # A slave takes over its master's topics once a minute: this one has done so before.
        shutil.copytree(master.folder / "store" / "config", folder / "slave" / "store" / "config")
        with (
            rocketmq(
                folder / "slave", extra_broker_conf=slave_conf, join=master.namesrv, stop_in_order=False
            ) as slave,
            Client([master.namesrv], "sandbox", pulls_in_flight=2) as client,
        ):
            where = wait_for_slave(master.namesrv, slave.broker_address)
            assert client.bounds(where) == Bounds(0, COUNT, from_master=True)
            reading = client.read(where, 0, COUNT)
            seen = [m.queue_offset for m in next(reading)]
            master.broker.kill()
            seen += [m.queue_offset for batch in reading for m in batch]
            assert seen == list(range(COUNT))
            assert client.bounds(where) == Bounds(0, COUNT, from_master=False)

            reading = client.read(where, 0, COUNT)
            seen = [m.queue_offset for m in next(reading)]
            slave.broker.kill()
            with pytest.raises(RocketMQError, match=rf"reading \[0, {COUNT}\) ended before"):
                seen += [m.queue_offset for batch in reading for m in batch]
            assert seen == list(range(len(seen)))
            assert len(seen) < COUNT
            with pytest.raises(ConnectionLostError):
                client.max_offset(where)


def wait_for_slave(namesrv: str, address: str) -> MessageQueue:
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
