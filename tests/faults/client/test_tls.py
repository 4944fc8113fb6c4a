"""TLS with certificates that are checked, on both sides, and what is said where a check fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import Tls
from spark_jobs.rocketmq.errors import ConnectionLostError, UnreachableError
from tests.faults.client.certificates import Authority
from tests.faults.client.conftest import SEALED_COUNT, SEALED_TOPIC, Sealed, read
from tests.rocketmq.conftest import queue


def mutual(sealed: Sealed, **changes: object) -> Tls:
    """How to reach the whole cluster, `check_host` included."""
    tls = Tls(sealed.ca.certificate, sealed.client.certificate, sealed.client.key, check_host=True)
    return replace(tls, **changes)  # type: ignore[arg-type]


def test_a_client_that_is_known_reads_from_servers_that_are_known(sealed: Sealed):
    with Client([sealed.sandbox.namesrv], "sealed", tls=mutual(sealed)) as client:
        messages = read(client, SEALED_TOPIC, 0, SEALED_COUNT)
    assert [m.queue_offset for m in messages] == list(range(SEALED_COUNT))
    assert [int(m.body[:10]) for m in messages] == list(range(SEALED_COUNT))


def test_a_server_that_asks_for_no_certificate_needs_none(sealed: Sealed):
    tls = Tls(sealed.ca.certificate, check_host=True)
    with Client([sealed.sandbox.namesrv], tls=tls) as client:
        assert len(client.queues(SEALED_TOPIC)) == 1


def test_a_server_that_another_authority_vouches_for_is_refused(sealed: Sealed, tmp_path: Path):
    tls = mutual(sealed, ca_file=Authority(tmp_path / "other").certificate)
    with (
        Client([sealed.sandbox.namesrv], "sealed", tls=tls) as client,
        pytest.raises(
            UnreachableError,
            match=f"no TLS connection to {sealed.sandbox.namesrv}: .*certificate verify failed",
        ),
    ):
        client.queues(SEALED_TOPIC)


def test_the_authorities_of_the_system_do_not_vouch_for_it(sealed: Sealed):
    with (
        Client([sealed.sandbox.namesrv], tls=Tls()) as client,
        pytest.raises(UnreachableError, match="certificate verify failed"),
    ):
        client.queues(SEALED_TOPIC)


@pytest.mark.parametrize("check_host", [True, False])
def test_the_host_s_name_is_checked_where_that_is_asked_for(sealed: Sealed, check_host: bool):
    """The certificate is for 127.0.0.1, and this is another name of the same host."""
    namesrv = sealed.sandbox.namesrv.replace("127.0.0.1", "localhost")
    with Client([namesrv], tls=mutual(sealed, check_host=check_host)) as client:
        if check_host:
            with pytest.raises(UnreachableError, match="certificate is not valid for 'localhost'"):
                client.queues(SEALED_TOPIC)
        else:
            assert len(client.queues(SEALED_TOPIC)) == 1


def test_a_broker_that_asks_for_a_certificate_refuses_who_has_none(sealed: Sealed):
    assert_refused(sealed, Tls(sealed.ca.certificate))


def test_a_broker_refuses_a_client_that_another_authority_vouches_for(sealed: Sealed, tmp_path: Path):
    stranger = Authority(tmp_path / "other").issue("client")
    assert_refused(sealed, mutual(sealed, cert_file=stranger.certificate, key_file=stranger.key))


def test_a_broker_refuses_a_certificate_that_has_expired(sealed: Sealed):
    old = sealed.ca.issue("old", lifetime=timedelta(hours=-1))
    assert_refused(sealed, mutual(sealed, cert_file=old.certificate, key_file=old.key))


def assert_refused(sealed: Sealed, tls: Tls) -> None:
    with Client([sealed.sandbox.namesrv], "sealed", tls=tls, attempts=2) as client:
        where = queue(client, SEALED_TOPIC)  # the nameserver does not ask
        for ask in (lambda: client.max_offset(where), lambda: list(client.read(where, 0, 1))):
            with pytest.raises(
                ConnectionLostError,
                match=f"cluster sealed, topic sealed, .*{sealed.sandbox.broker_address}.*(?i:certificate)",
            ):
                ask()
