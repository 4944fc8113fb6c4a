"""The ACL of RocketMQ 5.x: signatures are accepted, and refusals say which of the two went wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.broker import Sandbox, rocketmq
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import AuthenticationError, ConsumerGroupNotFoundError, PermissionDeniedError
from tests.rocketmq.java_client import run
from tests.rocketmq.secrecy import assert_no_secret

ADMIN = Credentials("admin", "admin-secret")
READER = Credentials("reader", "reader-secret")
TOPIC = "RMQ_SYS_TRACE_TOPIC"
_AUTH = "org.apache.rocketmq.auth."
ACL_CONF = {
    "authenticationEnabled": "true",
    "authenticationProvider": _AUTH + "authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": _AUTH + "authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"admin","password":"admin-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"admin","secretKey":"admin-secret"}',
    "authorizationEnabled": "true",
    "authorizationProvider": _AUTH + "authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": _AUTH + "authorization.provider.LocalAuthorizationMetadataProvider",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A broker that asks for signatures, does not create groups, and lets `reader` read the trace topic."""
    folder = tmp_path_factory.mktemp("acl")
    conf = {**ACL_CONF, "autoCreateSubscriptionGroup": "false"}
    with rocketmq(folder, extra_broker_conf=conf, stop_in_order=False) as sandbox:
        grant = {
            "do": "grant",
            "broker": sandbox.broker_address,
            "admin": [ADMIN.access_key, ADMIN.secret_key],
            "user": [READER.access_key, READER.secret_key],
            "resources": [f"Topic:{TOPIC}", "Group:TOOLS_CONSUMER"],
        }
        run(sandbox.namesrv, folder / "java", [grant])
        yield sandbox


@pytest.mark.parametrize(
    "credentials",
    [ADMIN, READER, Credentials("reader", "reader-secret", "a-token")],
    # The broker does not know tokens, yet the signature that it computes covers the one that is sent.
    ids=["admin", "reader", "with a security token"],
)
def test_who_may_read_reads(guarded: Sandbox, credentials: Credentials):
    with Client([guarded.namesrv], "guarded", credentials) as client:
        (queue,) = client.queues(TOPIC)
        assert (client.min_offset(queue), client.max_offset(queue), client.offset_at(queue, 0)) == (0, 0, 0)
        assert client.pull(queue, 0).messages == []


@pytest.mark.parametrize(
    "credentials",
    [
        None,
        Credentials("admin", "wrong-secret-4711"),
        Credentials("admin", "wrong-secret-4711", "secret-token-4711"),
        Credentials("nobody-known", "nobody-secret-4711"),
    ],
    ids=["missing", "secret wrong", "secret wrong, with a token", "access key unknown"],
)
def test_an_unknown_user_gets_the_reason(guarded: Sandbox, credentials: Credentials | None):
    with Client([guarded.namesrv], "guarded", credentials) as client:
        (queue,) = client.queues(TOPIC)
        for ask in (
            lambda: client.max_offset(queue),
            lambda: client.pull(queue, 0),
            lambda: list(client.read(queue, 0, 1)),
        ):
            with pytest.raises(AuthenticationError, match="Check the access key") as caught:
                ask()
            assert_no_secret(caught.value, client, credentials)


def test_a_user_without_permission_gets_the_reason(guarded: Sandbox):
    with Client([guarded.namesrv], "guarded", READER) as client:
        (queue,) = client.queues("TBW102")[:1]
        with pytest.raises(PermissionDeniedError, match="Grant this user Sub and Get on the topic") as caught:
            list(client.read(queue, 0, 1))
        assert_no_secret(caught.value, client, READER)


def test_the_default_group_needs_no_creation_and_another_does(guarded: Sandbox):
    with Client([guarded.namesrv], "guarded", ADMIN, consumer_group="not-there") as client:
        (queue,) = client.queues(TOPIC)
        with pytest.raises(
            ConsumerGroupNotFoundError, match="code 26 .*leave the option consumerGroup at TOOLS_CONSUMER"
        ):
            client.pull(queue, 0)
