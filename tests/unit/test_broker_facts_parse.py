"""Parse brokers' answers: keys as fastjson writes them, named fields only, and errors without the answer's text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.broker_facts import parse
from spark_jobs.rocketmq import fastjson

SECRET = "the-secret-4711"


class Queue(NamedTuple):
    """A key that is an object."""

    broker: str
    queue_id: int
    topic: str

    @property
    def text(self) -> str:
        fields = {"brokerName": self.broker, "queueId": self.queue_id, "topic": self.topic}
        return json.dumps(fields, separators=(",", ":"))


def written(value: Any) -> str:
    """The value as fastjson writes it: keys that are numbers or queues stand without quotes."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_key(key)}:{written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


def _key(key: Any) -> str:
    return key.text if isinstance(key, Queue) else json.dumps(key)


def decoded(value: Any) -> Any:
    """The value as `fastjson.loads` returns it."""
    if isinstance(value, dict):
        return {
            key.text if isinstance(key, Queue) else str(key): decoded(each) for key, each in value.items()
        }
    return [decoded(each) for each in value] if isinstance(value, list) else value


TEXTS = st.text(max_size=6) | st.sampled_from(["{0:5}", ",3:4", '":1', "\\", '{"a":1}:', "ü"])
KEYS = st.one_of(TEXTS, st.integers(-5, 2**40), st.builds(Queue, TEXTS, st.integers(0, 99), TEXTS))
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            KEYS,
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
@settings(deadline=None)
def test_keys_of_every_kind_are_read(value: dict[Any, Any]):
    if len(set(decoded(value))) == len(value):  # else two keys have one text
        expected = json.loads(json.dumps(decoded(value)))
        assert fastjson.loads(written(value).encode()) == expected


RUNTIME = {
    "commitLogMinOffset": "1024",
    "commitLogMaxOffset": "2048",
    "earliestMessageTimeStamp": "1795516350230",
    "scheduleMessageOffset_2": "3,5",
    "scheduleMessageOffset_10": "0,1",
    "timerReadBehind": "0",
    "brokerVersionDesc": "V5_5_0",
    "anything": SECRET,
}
CONFIG = f"""
brokerRole=ASYNC_MASTER
messageDelayLevel=1s 5s = 10s
fileReservedTime=72
traceOn=true
enablePropertyFilter=false
timerMaxDelaySec=259200
initAuthenticationUser={{"username":"admin","password":"{SECRET}"}}
innerClientAuthenticationCredentials={{"accessKey":"admin","secretKey":"{SECRET}"}}
""".encode()
CONNECTION = {
    "connectionSet": [
        {"clientAddr": "10.0.0.2:4711", "clientId": "10.0.0.2@7", "language": "JAVA", "version": 409},
        {"clientAddr": "10.0.0.1:4711", "clientId": "10.0.0.1@7", "language": "GO", "version": 317},
    ],
    "subscriptionTable": {
        "orders": {"subString": "b || a", "tagsSet": ["b", "a"], "codeSet": [98, 97], "subVersion": 7},
        "bills": {"subString": "x = '{0:1}'", "expressionType": "SQL92", "tagsSet": []},
    },
    "consumeType": "CONSUME_PASSIVELY",
    "messageModel": "BROADCASTING",
}
TOPICS = {
    "orders": {
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "order": False,
        "attributes": {"message.type": "FIFO"},
    },
    "%RETRY%g": {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6},
    "%DLQ%ns%g": {"readQueueNums": 1, "writeQueueNums": 1, "perm": 2},
    "%RETRY%g+orders": {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6},
    "broker-a": {"readQueueNums": 1, "writeQueueNums": 1, "perm": 7},
    "RMQ_SYS_TRACE_TOPIC": {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6},
}
STATS = {
    Queue("b", 1, "t"): {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0},
    Queue("b", 0, "t"): {"minOffset": 3, "maxOffset": 9, "lastUpdateTimestamp": 1795516350230},
}
GROUPS = {
    "g": {"consumeEnable": True, "consumeBroadcastEnable": False, "retryMaxTimes": 3, "retryQueueNums": 1},
}
OFFSETS = {"orders@g": {10: 7, 2: 5}, "%LMQ%orders": {0: 1}, "%RETRY%g@g": {0: 1}}
PULLED = {"orders@g": {2: 9}, "%LMQ%orders": {0: 1}}
CLIENT = {"clientId": "1@1", "language": "JAVA", "version": 513, "remoteIP": "/10.0.0.1:1"}
PRODUCERS = {
    "_INNER_TRACE_PRODUCER-a-b-CONSUME-1": [CLIENT],
    "_INNER_TRACE_PRODUCER-a-b-CONSUME": [CLIENT | {"clientId": "2@2", "version": 409}, CLIENT],
    "p": [CLIENT],
}


def answer(name: str, value: Any) -> bytes:
    return written({name: value}).encode()


def test_runtime_info():
    info = parse.runtime_info(answer("table", RUNTIME))
    assert (info.commit_log_min_offset, info.commit_log_max_offset) == (1024, 2048)
    assert info.earliest_message_at == datetime(2026, 11, 24, 10, 32, 30, 230000, UTC)
    assert (info.delay_levels, info.timer_behind_ms) == (((2, 3, 5), (10, 0, 1)), 0)


@pytest.mark.parametrize(
    ("ordinal", "release"),
    [
        *((317, "4.5.2"), (333, "4.6.0"), (395, "4.9.1"), (401, "4.9.4"), (409, "4.9.8"), (413, "5.0.0")),
        *((473, "5.3.0"), (475, "5.3.1"), (479, "5.3.3"), (513, "5.5.0"), (512, "5.5.0-SNAPSHOT")),
        *((213, "4.0.0"), (3, "MQVersion 3")),
    ],
)
def test_releases_by_the_ordinals_of_mqversion(ordinal: int, release: str):
    assert parse.release(ordinal) == release


def test_an_empty_broker_has_no_offsets():
    info = parse.runtime_info(answer("table", {"commitLogMinOffset": "-1", "earliestMessageTimeStamp": "-1"}))
    assert info == parse.RuntimeInfo(None, None, None, (), None)


def test_only_named_settings_are_read():
    config = parse.broker_config(CONFIG)
    assert (config.role, config.delay_levels, config.retention_hours) == ("ASYNC_MASTER", "1s 5s = 10s", 72)
    assert (config.trace_enabled, config.sql_filter_enabled, config.timer_enabled) == (True, False, None)
    assert SECRET not in repr(config)


def test_consumers_and_their_subscriptions():
    found = parse.consumer_connection(written(CONNECTION).encode())
    assert (found.consume_type, found.message_model, found.consume_from) == (
        "CONSUME_PASSIVELY",
        "BROADCASTING",
        None,
    )
    assert found.clients == parse.Clients(("GO", "JAVA"), ("4.5.2", "4.9.8"), ("10.0.0.1@7", "10.0.0.2@7"), 2)
    assert found.subscriptions == (
        parse.Subscription("bills", "SQL92", "x = '{0:1}'", (), False),
        parse.Subscription("orders", "TAG", "b || a", ("a", "b"), False),
    )


def test_topics_are_classified():
    found = parse.topics(answer("topicConfigTable", TOPICS), {"broker-a", "cluster"})
    assert {each.topic: (each.kind, each.of_group) for each in found} == {
        "orders": ("normal", None),
        "%RETRY%g": ("retry", "g"),
        "%DLQ%ns%g": ("dead_letter", "ns%g"),
        "%RETRY%g+orders": ("retry", "g"),
        "broker-a": ("system", None),
        "RMQ_SYS_TRACE_TOPIC": ("system", None),
    }
    assert [each.message_type for each in found if each.kind == "normal"] == ["FIFO"]


def test_offsets_of_topics_and_groups():
    at = datetime(2026, 11, 24, 10, 32, 30, 230000, UTC)
    assert parse.topic_queues(answer("offsetTable", STATS)) == [
        parse.TopicQueue(0, 3, 9, at),
        parse.TopicQueue(1, 0, 0, None),
    ]
    found, pulled = parse.consumer_offsets(answer("offsetTable", OFFSETS))
    assert found == {("g", "orders"): {2: 5, 10: 7}, ("g", "%RETRY%g"): {0: 1}}
    assert list(found["g", "orders"]) == [2, 10]
    assert pulled == {}  # a broker of 4.x
    of_5 = written({"offsetTable": OFFSETS, "pullOffsetTable": PULLED}).encode()
    assert parse.consumer_offsets(of_5) == (found, {("g", "orders"): {2: 9}})
    assert parse.groups(answer("subscriptionGroupTable", GROUPS)) == [
        parse.Group("g", True, False, None, 3, 1)
    ]


def test_producers_that_write_a_trace_are_one_per_group_and_role():
    first, plain = parse.producers(answer("data", PRODUCERS))
    assert (first.group_name, first.trace_of, first.trace_role) == (
        "_INNER_TRACE_PRODUCER-a-b-CONSUME",
        "a-b",
        "CONSUME",
    )
    assert first.clients == parse.Clients(("JAVA",), ("4.9.8", "5.5.0"), ("1@1", "2@2"), 3)
    assert (plain.group_name, plain.trace_of) == ("p", None)
    assert plain.hosts == {"10.0.0.1"}


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1:4711", "10.0.0.1"),
        ("/10.0.0.1:4711", "10.0.0.1"),
        ("broker-a/10.0.0.1:4711", "10.0.0.1"),
        ("/[0:0:0:0:0:0:0:1]:4711", "::1"),
        ("0:0:0:0:0:0:0:1:4711", "::1"),
    ],
)
def test_the_host_of_an_address_is_written_in_one_way(address, host):
    assert parse.host_of(address) == host


PARSERS = {
    "runtime_info": (parse.runtime_info, answer("table", RUNTIME)),
    "broker_config": (parse.broker_config, CONFIG),
    "topics": (lambda body: parse.topics(body, ()), answer("topicConfigTable", TOPICS)),
    "topic_queues": (parse.topic_queues, answer("offsetTable", STATS)),
    "groups": (parse.groups, answer("subscriptionGroupTable", GROUPS)),
    "consumer_connection": (parse.consumer_connection, written(CONNECTION).encode()),
    "consumer_offsets": (parse.consumer_offsets, answer("offsetTable", OFFSETS)),
    "producers": (parse.producers, answer("data", PRODUCERS)),
}


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_damaged_answer_is_read_or_refused_without_its_text(name: str, data: st.DataObject):
    parser, body = PARSERS[name]
    first = data.draw(st.integers(0, len(body)))
    last = data.draw(st.integers(first, min(len(body), first + 20)))
    damaged = body[:first] + data.draw(st.binary(max_size=8)) + body[last:]
    shown = ""
    try:
        found = parser(damaged)
    except ValueError as error:
        shown = "".join(map(str, (error, error.args, error.__cause__)))
    else:
        shown = repr(found) if name in ("runtime_info", "broker_config") else ""
    assert SECRET not in shown


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"", b"\xff", b"{}", b'{"table":[]}'])
@pytest.mark.parametrize("name", sorted(set(PARSERS) - {"broker_config", "consumer_connection"}))
def test_an_answer_of_another_shape_is_refused(name: str, body: bytes):
    with pytest.raises(ValueError, match="another shape"):
        PARSERS[name][0](body)
