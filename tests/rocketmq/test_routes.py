"""Routes as nameservers of 5.x (standard JSON) and before 4.9.4 (bare numbers as names) write them."""

from __future__ import annotations

import pytest

from spark_jobs.rocketmq.errors import ProtocolError
from spark_jobs.rocketmq.route import MessageQueue, decode_route, union

STANDARD = (
    '{"brokerDatas":[{"brokerAddrs":{"1":"h:2","0":"h:1"},"brokerName":"b1","cluster":"x{3:4"}],'
    '"queueDatas":[{"brokerName":"b1","perm":6,"readQueueNums":2,"writeQueueNums":4,"topicSysFlag":0}]}'
)
BARE = STANDARD.replace('"1":', "1:").replace('"0":', "0:")
EXPECTED = [MessageQueue("t", "b1", number, ((0, "h:1"), (1, "h:2"))) for number in (0, 1)]


@pytest.mark.parametrize("text", [STANDARD, BARE], ids=["standard", "bare"])
def test_queues_are_those_that_can_be_read(text: str):
    assert decode_route("t", text.encode()) == EXPECTED


def test_a_queue_without_permission_to_read_is_recognized():
    assert not decode_route("t", STANDARD.replace('"perm":6', '"perm":2').encode())[0].readable


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"\xff", b'{"queueDatas":[{}]}', b'{"brokerDatas":[{"brokerName":"b"}]}'),
        STANDARD.replace('"readQueueNums":2', '"readQueueNums":2000000000').encode(),
        STANDARD.replace('"readQueueNums":2', '"readQueueNums":1e400').encode(),
        STANDARD.replace('"h:1"', '"h"').encode(),
        STANDARD.replace('"h:1"', "null").encode(),
        b"[" * 100_000,
    ],
)
def test_nonsense_is_a_protocol_error(body: bytes):
    with pytest.raises(ProtocolError, match="the route of topic t"):
        decode_route("t", body)


def test_nameservers_that_know_different_brokers_are_united():
    first, second = (
        MessageQueue("t", "a", 0, ((0, "h:1"),), False),
        MessageQueue("t", "a", 0, ((1, "h:2"),), True),
    )
    other = MessageQueue("t", "b", 0, ((0, "h:3"),))
    assert union([[first], [other, second]]) == [
        MessageQueue("t", "a", 0, ((0, "h:1"), (1, "h:2")), True),
        other,
    ]
