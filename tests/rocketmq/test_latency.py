"""Throughput must not depend on how far away the broker is."""

from __future__ import annotations

import time

from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, Written, queue
from tests.rocketmq.proxy import Proxied, proxy


def test_throughput_does_not_collapse_with_the_round_trip(written: Written):
    """20,000 messages are 625 pulls: at 40 ms each, one after the other they would take 25 s."""
    with (
        proxy(written.sandbox.broker_address, delay=0.02) as address,
        Proxied(written.sandbox.namesrv, address) as client,
    ):
        begin = time.monotonic()
        batches = client.read(queue(client, LONG_TOPIC), 0, LONG_COUNT)
        assert [m.queue_offset for batch in batches for m in batch] == list(range(LONG_COUNT))
        assert time.monotonic() - begin < 5
