"""The client rocketmq-client-python against a broker with the ACL of 5.x: refusals have their reason, and end the read.

The library returns the same status for refused credentials, a broker that is down and a nameserver that is away.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import Sandbox
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.errors import (
    AuthenticationError,
    ConnectionLostError,
    PermissionDeniedError,
    RequestTimeoutError,
    UnreachableError,
)
from spark_jobs.rocketmq.librocketmq.client import LibraryClient
from spark_jobs.rocketmq.librocketmq.limits import UnsupportedError
from tests import official_client
from tests.rocketmq.secrecy import assert_no_secret
from tests.rocketmq.test_access import ADMIN, READER, TOPIC, guarded  # noqa: F401


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    yield from official_client.importable()


@pytest.fixture
def opened(package: Path, guarded: Sandbox):  # noqa: F811
    """A function that opens a client with credentials."""
    clients = []

    def open_with(credentials: Credentials | None, **options: object) -> LibraryClient:
        clients.append(LibraryClient([guarded.namesrv], "guarded", credentials, **options))
        return clients[-1]

    yield open_with
    for client in clients:
        client.close()


@pytest.mark.parametrize("credentials", [ADMIN, READER], ids=["admin", "reader"])
def test_who_may_read_reads(opened, credentials: Credentials):
    client = opened(credentials)
    (queue,) = client.queues(TOPIC)
    assert client.bounds(queue).max_offset == 0
    assert client.message_at(queue, 0) is None
    for name in ("environ", "cmdline"):  # any user of the machine can see the latter
        assert credentials.secret_key.encode() not in Path(f"/proc/{client.library_pid}/{name}").read_bytes()


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (None, "username cannot be null"),
        (Credentials("admin", "wrong-secret-4711"), "check signature failed"),
        (Credentials("nobody-known", "nobody-secret-4711"), "User:nobody-known is not found"),
    ],
    ids=["missing", "secret wrong", "access key unknown"],
)
def test_refused_credentials_have_their_reason(opened, credentials: Credentials | None, reason: str):
    client = opened(credentials)
    (queue,) = client.queues(TOPIC)
    for ask in (
        lambda: client.bounds(queue),
        lambda: client.message_at(queue, 0),
        lambda: list(client.read(queue, 0, 1)),
    ):
        with pytest.raises(AuthenticationError, match=f"code 16 .*{reason}.*Check the access key") as caught:
            ask()
        assert_no_secret(caught.value, client, credentials)


def test_a_security_token_is_refused_at_the_start(opened):
    """The library has no field for it."""
    token = Credentials("reader", "reader-secret", "a-token-4711")
    with pytest.raises(UnsupportedError, match="cluster guarded: .* cannot send a security token") as caught:
        opened(token)
    assert "4711" not in str(caught.value)


def test_a_topic_that_may_not_be_read(opened):
    client = opened(READER)
    queue = client.queues("TBW102")[0]
    with pytest.raises(
        PermissionDeniedError, match="no permission.*Grant this user Sub and Get on the topic"
    ):
        client.bounds(queue)


def test_a_broker_that_does_not_answer(opened, guarded: Sandbox):  # noqa: F811
    client = opened(READER)  # on a busy machine the library loses connections
    (queue,) = client.queues(TOPIC)
    assert client.bounds(queue).max_offset == 0
    client.attempts, client.timeout = 1, 3.0  # the library waits 10 s
    os.kill(guarded.broker_pid, signal.SIGSTOP)
    try:
        with pytest.raises(RequestTimeoutError, match=f"topic {TOPIC}, broker broker-a, queue 0: "):
            client.bounds(queue)
    finally:
        os.kill(guarded.broker_pid, signal.SIGCONT)


def test_a_broker_that_is_down_and_then_the_nameserver(opened, guarded: Sandbox):  # noqa: F811
    """The last test of this file: it ends both."""
    client = opened(READER)
    (queue,) = client.queues(TOPIC)
    client.attempts = 1
    guarded.broker.kill()
    # The library sees the closed connection, or its requests to it time out: its threads decide.
    lost = "Check that the broker runs|The nameserver or the broker did not answer"
    with pytest.raises(ConnectionLostError, match=lost) as caught:
        client.bounds(queue)
    assert not isinstance(caught.value, UnreachableError)
    guarded.nameserver.kill()
    for ask in (lambda: client.bounds(queue), lambda: client.queues(TOPIC)):
        with pytest.raises(UnreachableError, match="No nameserver accepts a connection"):
            ask()
