"""The ACL of 4.x (plain_acl.yml) and of 5.x: permitted users read, others get an error with the reason, without secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from sandbox.broker import TRACE_TOPIC
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import AccessDeniedError, AuthenticationError, PermissionDeniedError
from spark_jobs.rocketmq.route import MessageQueue
from tests.faults.client.old_broker import BROKER, broker_4_9
from tests.rocketmq.conftest import Written
from tests.rocketmq.java_client import run
from tests.rocketmq.secrecy import assert_no_secret

WRITER = Credentials("trace-writer", "writer-secret-4711")
READER = Credentials("trace-reader", "reader-secret-4711")
PLAIN_ACL = f"""
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {WRITER.access_key}
  secretKey: {WRITER.secret_key}
  admin: true
- accessKey: {READER.access_key}
  secretKey: {READER.secret_key}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - {TRACE_TOPIC}=SUB
  groupPerms:
  - TOOLS_CONSUMER=SUB
"""
BODIES = [b"first", b"second" * 1000]


@pytest.fixture(scope="module")
def old(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The nameserver of a broker of 4.9.7 that asks for signatures."""
    namesrv = written.sandbox.namesrv
    with broker_4_9(tmp_path_factory.mktemp("old"), namesrv, PLAIN_ACL):
        produce = {
            "do": "produce",
            "topic": TRACE_TOPIC,
            "broker": BROKER,
            "bodies": [base64.b64encode(body).decode() for body in BODIES],
            "credentials": [WRITER.access_key, WRITER.secret_key],
        }
        run(namesrv, tmp_path_factory.mktemp("java"), [produce])
        yield namesrv


def trace_queue(client: Client, topic: str = TRACE_TOPIC) -> MessageQueue:
    return next(each for each in client.queues(topic) if each.broker == BROKER)


@pytest.mark.parametrize("credentials", [WRITER, READER], ids=["admin", "reader"])
def test_who_may_read_a_4_9_broker_reads_it(old: str, credentials: Credentials):
    with Client([old], "old", credentials) as client:
        where = trace_queue(client)
        assert (client.min_offset(where), client.max_offset(where), client.offset_at(where, 0)) == (0, 2, 0)
        messages = [message for batch in client.read(where, 0, 2) for message in batch]
        assert [message.body for message in messages] == BODIES
        times = [message.store_time for message in messages]
        for wanted in (
            times[0],
            times[0] + 1,
            times[1],
            times[1] + 1,
        ):  # the broker itself returns the nearest one
            first = next((offset for offset, time in enumerate(times) if time >= wanted), 2)
            assert client.offset_at(where, wanted) == first


@pytest.mark.parametrize(
    ("credentials", "error", "words"),
    [
        (None, AuthenticationError, "No accessKey is configured.*Check the access key"),
        (Credentials("trace-reader", "wrong-secret-4711"), AuthenticationError, "Check signature failed"),
        (Credentials("nobody-known", "nobody-secret-4711"), AuthenticationError, "Check the access key"),
    ],
    ids=["missing", "secret wrong", "access key unknown"],
)
def test_a_4_9_broker_says_who_is_not_known(
    old: str, credentials: Credentials | None, error: type[AccessDeniedError], words: str
):
    with Client([old], "old", credentials) as client:
        where = trace_queue(client)
        for ask in (
            lambda: client.max_offset(where),
            lambda: client.pull(where, 0),
            lambda: list(client.read(where, 0, 2)),
        ):
            with pytest.raises(error, match=words) as caught:
                ask()
            assert_no_secret(caught.value, client, credentials)


def test_a_4_9_broker_says_what_is_not_permitted(old: str):
    with Client([old], "old", READER) as client:
        other = trace_queue(client, "SELF_TEST_TOPIC")
        with pytest.raises(PermissionDeniedError, match="Grant this user Sub and Get on the topic") as caught:
            list(client.read(other, 0, 1))
        assert_no_secret(caught.value, client, READER)
    with (
        Client([old], "old", READER, consumer_group="another-group") as client,
        pytest.raises(PermissionDeniedError, match="another-group"),
    ):
        client.pull(trace_queue(client), 0)
