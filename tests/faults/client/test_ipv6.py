"""Brokers and nameservers at addresses of IPv6."""

from __future__ import annotations

import pytest

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import Tls, split_address
from spark_jobs.rocketmq.errors import UnreachableError
from spark_jobs.rocketmq.options import Options
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, Written, queue
from tests.rocketmq.proxy import proxy, through

EVERY = list(range(LONG_COUNT))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("[::1]:9876", ("::1", 9876)),
        ("::1:9876", ("::1", 9876)),  # as a broker writes it into the route whose brokerIP1 is ::1
        ("[2001:db8::7]:10911", ("2001:db8::7", 10911)),
        ("[fe80::1%eth0]:10911", ("fe80::1%eth0", 10911)),
        ("10.0.0.1:9876", ("10.0.0.1", 9876)),
        ("broker.example:9876", ("broker.example", 9876)),
    ],
)
def test_addresses(address: str, expected: tuple[str, int]):
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["[::1]", "::1", "[::1]:", "[::1]:0", "[::1]:65536", ":9876", ""])
def test_what_is_no_address(address: str):
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(address)


def test_the_option_namesrv_takes_them():
    options = Options.parse({"namesrv": "[::1]:9876;10.0.0.1:9876", "topic": "t"})
    assert options.namesrv == ("[::1]:9876", "10.0.0.1:9876")


@pytest.mark.parametrize("tls", [None, Tls(verify=False)], ids=["plain", "tls"])
def test_a_cluster_is_read_at_ipv6(written: Written, tls: Tls | None):
    sandbox = written.sandbox
    with (
        proxy(sandbox.namesrv, host="::1") as namesrv,
        proxy(sandbox.broker_address, host="::1") as broker,
        Client([namesrv], "six", tls=tls) as client,
    ):
        assert namesrv.startswith("[::1]:")
        where = through(queue(client, LONG_TOPIC), broker)
        assert (client.min_offset(where), client.max_offset(where)) == (0, LONG_COUNT)
        assert [m.queue_offset for batch in client.read(where, 0, LONG_COUNT) for m in batch] == EVERY
        bare = through(where, broker.replace("[", "").replace("]", ""))
        assert client.max_offset(bare) == LONG_COUNT


def test_an_address_where_nobody_listens_is_named(written: Written):
    with proxy(written.sandbox.namesrv, host="::1") as gone:
        pass
    with Client([gone]) as client, pytest.raises(UnreachableError, match=r"no connection to \[::1\]:\d+"):
        client.queues(LONG_TOPIC)
