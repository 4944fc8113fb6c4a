"""From the bytes of an answer to typed facts; pure.

Only the fields that are named here are read: the configuration of a broker contains credentials in clear text. Every function
raises `ValueError` if the answer is not what a broker sends; the text never contains the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from ipaddress import ip_address
from typing import Any, ParamSpec, TypeVar

from spark_jobs.rocketmq import fastjson

RETRY_PREFIX, DEAD_LETTER_PREFIX = "%RETRY%", "%DLQ%"
# TopicValidator of 5.5.0, and the topics that a broker creates with names of its own.
_SYSTEM_TOPICS = frozenset(
    [
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "SELF_TEST_TOPIC",
        "rmq_sys_wheel_timer",
    ]
)
_SYSTEM_PREFIXES = ("rmq_sys_", "RMQ_SYS_", "%SYS%")
_V4_0_0 = 213
_TRACE_PRODUCER = re.compile(r"(_INNER_TRACE_PRODUCER-(.+)-(CONSUME|PRODUCE))(?:-\d+)?")

_Given = ParamSpec("_Given")
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class RuntimeInfo:
    """Of GET_BROKER_RUNTIME_INFO; None where the broker does not say, or has no message.

    Attributes:
        commit_log_min_offset: first physical offset that is still there.
        commit_log_max_offset: physical offset of the next message.
        earliest_message_at: store time of the oldest message, UTC.
        delay_levels: level, offset up to which it is delivered, max offset.
        timer_behind_ms: how far the timer is behind.
    """

    commit_log_min_offset: int | None
    commit_log_max_offset: int | None
    earliest_message_at: datetime | None
    delay_levels: tuple[tuple[int, int, int], ...]
    timer_behind_ms: int | None


@dataclass(frozen=True)
class BrokerConfig:
    """Of GET_BROKER_CONFIG; None where the broker's release has no such setting. The columns of `brokers`."""

    role: str | None
    region_id: str | None
    delay_levels: str | None
    retention_hours: int | None
    delete_hour: str | None
    timer_enabled: bool | None
    timer_max_delay_seconds: int | None
    timer_precision_ms: int | None
    trace_enabled: bool | None
    trace_topic_enabled: bool | None
    sql_filter_enabled: bool | None
    message_index_enabled: bool | None
    creates_topics: bool | None
    creates_groups: bool | None


@dataclass(frozen=True)
class Topic:
    """Of GET_ALL_TOPIC_CONFIG. The columns of `topics`."""

    topic: str
    kind: str
    of_group: str | None
    message_type: str | None
    read_queues: int
    write_queues: int
    perm: int
    is_ordered: bool


@dataclass(frozen=True)
class TopicQueue:
    """A queue in GET_TOPIC_STATS_INFO; `last_stored_at` is None if it has no message."""

    queue_id: int
    min_offset: int
    max_offset: int
    last_stored_at: datetime | None


@dataclass(frozen=True)
class Group:
    """Of GET_ALL_SUBSCRIPTIONGROUP_CONFIG. The columns of `groups`."""

    group_name: str
    consume_enabled: bool
    broadcast_enabled: bool
    orderly: bool | None
    retry_max_times: int
    retry_queues: int


@dataclass(frozen=True)
class Clients:
    """The connected clients of a group: each tuple is sorted, without duplicates. `versions` are releases.

    Attributes:
        connections: their number. The ids do not tell it: the trace producers of all processes of a host have one id.
    """

    languages: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    client_ids: tuple[str, ...] = ()
    connections: int = 0

    def __or__(self, other: Clients) -> Clients:
        return Clients(
            tuple(sorted({*self.languages, *other.languages})),
            tuple(sorted({*self.versions, *other.versions})),
            tuple(sorted({*self.client_ids, *other.client_ids})),
            self.connections + other.connections,
        )


def host_of(address: str) -> str:
    """The host of an `ip:port`, as Java writes socket addresses (`/ip:port`, an IPv6 address in brackets or not)."""
    host = address.rpartition("/")[2].rpartition(":")[0].strip("[]")
    try:
        return str(ip_address(host))
    except ValueError:
        return host


@dataclass(frozen=True)
class Subscription:
    """A topic that a group subscribes to; `tags` is sorted, and empty for all and for SQL92."""

    topic: str
    expression_type: str
    expression: str
    tags: tuple[str, ...]
    class_filter: bool


@dataclass(frozen=True)
class ConsumerConnection:
    """Of GET_CONSUMER_CONNECTION_LIST: a group that is online."""

    consume_type: str | None
    message_model: str | None
    consume_from: str | None
    clients: Clients
    hosts: frozenset[str]
    subscriptions: tuple[Subscription, ...]


@dataclass(frozen=True)
class Producer:
    """A producer group of GET_ALL_PRODUCER_INFO; `trace_of` and `trace_role` if it writes a trace."""

    group_name: str
    trace_of: str | None
    trace_role: str | None
    clients: Clients
    hosts: frozenset[str]


def _checked(parse: Callable[_Given, _Parsed]) -> Callable[_Given, _Parsed]:
    """Turn every error of an answer of another shape into a ValueError whose text does not contain the answer."""

    @wraps(parse)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Parsed:
        try:
            return parse(*args, **kwargs)
        except (
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            OSError,
        ) as error:
            raise ValueError(
                f"{parse.__name__}: the answer has another shape ({type(error).__name__})"
            ) from None

    return checked


def release(ordinal: int) -> str:
    """The release that an ordinal of MQVersion stands for, such as 5.5.0 for 513.

    From 4.0.0 (213) on, the enum has ten minors of ten patches, each as a snapshot and a release, and is only appended to.
    """
    if ordinal < _V4_0_0:
        return f"MQVersion {ordinal}"
    number, is_release = divmod(ordinal - _V4_0_0 + 1, 2)
    major, minor, patch = number // 100, number // 10 % 10, number % 10
    return f"{4 + major}.{minor}.{patch}{'' if is_release else '-SNAPSHOT'}"


@_checked
def runtime_info(body: bytes) -> RuntimeInfo:
    """Parse an answer of GET_BROKER_RUNTIME_INFO."""
    table: dict[str, str] = fastjson.loads(body)["table"]
    levels = []
    for name, value in table.items():
        if found := re.fullmatch(r"scheduleMessageOffset_(\d+)", name):
            delivered, most = value.split(",")
            levels.append((int(found[1]), int(delivered), int(most)))
    oldest = _whole(table.get("earliestMessageTimeStamp"))
    return RuntimeInfo(
        commit_log_min_offset=_whole(table.get("commitLogMinOffset")),
        commit_log_max_offset=_whole(table.get("commitLogMaxOffset")),
        earliest_message_at=_time(oldest or 0),
        delay_levels=tuple(sorted(levels)),
        timer_behind_ms=_whole(table.get("timerReadBehind")),
    )


def _whole(text: str | None) -> int | None:
    """A number; None if it is missing or negative, which a broker sends for none."""
    number = int(text) if text else -1
    return number if number >= 0 else None


@_checked
def broker_config(body: bytes) -> BrokerConfig:
    """Parse an answer of GET_BROKER_CONFIG: lines `key=value`, all of broker.conf, of which named keys are taken."""
    found = dict(line.split("=", 1) for line in body.decode().splitlines() if "=" in line)

    def number(name: str) -> int | None:
        return int(found[name]) if found.get(name) else None

    def flag(name: str) -> bool | None:
        return found[name].strip().lower() == "true" if found.get(name) else None

    return BrokerConfig(
        role=found.get("brokerRole"),
        region_id=found.get("regionId"),
        delay_levels=found.get("messageDelayLevel"),
        retention_hours=number("fileReservedTime"),
        delete_hour=found.get("deleteWhen"),
        timer_enabled=flag("timerWheelEnable"),
        timer_max_delay_seconds=number("timerMaxDelaySec"),
        timer_precision_ms=number("timerPrecisionMs"),
        trace_enabled=flag("traceOn"),
        trace_topic_enabled=flag("traceTopicEnable"),
        sql_filter_enabled=flag("enablePropertyFilter"),
        message_index_enabled=flag("messageIndexEnable"),
        creates_topics=flag("autoCreateTopicEnable"),
        creates_groups=flag("autoCreateSubscriptionGroup"),
    )


@_checked
def topics(body: bytes, own: Collection[str]) -> list[Topic]:
    """Parse an answer of GET_ALL_TOPIC_CONFIG; by name.

    Args:
        body: the answer.
        own: names of the broker and of its cluster, which are also those of system topics.
    """
    table = fastjson.loads(body)["topicConfigTable"]
    return [_topic(name, each, own) for name, each in sorted(table.items())]


def _topic(name: str, config: dict[str, Any], own: Collection[str]) -> Topic:
    kind, group = "normal", None
    if name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        kind = "retry" if name.startswith(RETRY_PREFIX) else "dead_letter"
        group = group_of_topic(name)
    elif (
        name in _SYSTEM_TOPICS
        or name in own
        or name.startswith(_SYSTEM_PREFIXES)
        or name.endswith("_REPLY_TOPIC")
    ):
        kind = "system"
    return Topic(
        topic=name,
        kind=kind,
        of_group=group,
        message_type=(config.get("attributes") or {}).get("message.type"),
        read_queues=int(config["readQueueNums"]),
        write_queues=int(config["writeQueueNums"]),
        perm=int(config["perm"]),
        is_ordered=bool(config.get("order")),
    )


def group_of_topic(topic: str) -> str | None:
    """The consumer group of a retry or dead-letter topic, with its namespace if it has one; None for other topics.

    The retry topics of pop consumers are `%RETRY%<group>_<topic>`, which cannot be distinguished from a group of that name; with
    enableRetryTopicV2 they are `%RETRY%<group>+<topic>`.
    """
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix).partition("+")[0]
    return None


@_checked
def topic_queues(body: bytes) -> list[TopicQueue]:
    """Parse an answer of GET_TOPIC_STATS_INFO; by queue id."""
    found = []
    for key, ends in fastjson.loads(body)["offsetTable"].items():
        queue_id = int(fastjson.loads(key.encode())["queueId"])
        times = _time(int(ends["lastUpdateTimestamp"]))
        found.append(TopicQueue(queue_id, int(ends["minOffset"]), int(ends["maxOffset"]), times))
    return sorted(found, key=lambda queue: queue.queue_id)


@_checked
def groups(body: bytes) -> list[Group]:
    """Parse an answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG; by name."""
    table = fastjson.loads(body)["subscriptionGroupTable"]
    return [
        Group(
            group_name=name,
            consume_enabled=bool(each["consumeEnable"]),
            broadcast_enabled=bool(each["consumeBroadcastEnable"]),
            orderly=each.get("consumeMessageOrderly"),
            retry_max_times=int(each["retryMaxTimes"]),
            retry_queues=int(each["retryQueueNums"]),
        )
        for name, each in sorted(table.items())
    ]


@_checked
def consumer_connection(body: bytes) -> ConsumerConnection:
    """Parse an answer of GET_CONSUMER_CONNECTION_LIST."""
    found = fastjson.loads(body)
    table = found.get("subscriptionTable") or {}
    return ConsumerConnection(
        consume_type=found.get("consumeType"),
        message_model=found.get("messageModel"),
        consume_from=found.get("consumeFromWhere"),
        clients=_clients(found.get("connectionSet") or []),
        hosts=_hosts(found.get("connectionSet") or [], "clientAddr"),
        subscriptions=tuple(
            Subscription(
                topic=topic,
                expression_type=each.get("expressionType") or "TAG",
                expression=each["subString"],
                tags=tuple(sorted(each.get("tagsSet") or ())),
                class_filter=bool(each.get("classFilterMode")),
            )
            for topic, each in sorted(table.items())
        ),
    )


def _clients(connections: list[dict[str, Any]]) -> Clients:
    return Clients(
        languages=tuple(sorted({str(each["language"]) for each in connections})),
        versions=tuple(sorted({release(int(each["version"])) for each in connections})),
        client_ids=tuple(sorted({str(each["clientId"]) for each in connections})),
        connections=len(connections),
    )


def _hosts(connections: list[dict[str, Any]], name: str) -> frozenset[str]:
    return frozenset(host_of(str(each[name])) for each in connections if each.get(name))


GroupOffsets = dict[tuple[str, str], dict[int, int]]  # (group, topic) to queue id to offset


@_checked
def consumer_offsets(body: bytes) -> tuple[GroupOffsets, GroupOffsets]:
    """Parse an answer of GET_ALL_CONSUMER_OFFSET: the committed offsets, and the pull offsets.

    A queue that is missing was never committed. A pull offset is the next one after what the broker gave to consumers of the
    group; brokers from 5.0 on have it, since their last start. What is not of a group and a topic (LMQ) is left out.
    """
    answer = fastjson.loads(body)
    return _group_offsets(answer["offsetTable"]), _group_offsets(answer.get("pullOffsetTable") or {})


def _group_offsets(table: dict[str, dict[str, Any]]) -> GroupOffsets:
    found: GroupOffsets = {}
    for key, queues in table.items():
        topic, at, group = key.partition("@")
        if at and "@" not in group and queues:
            found[group, topic] = {
                int(queue): int(offset) for queue, offset in sorted(queues.items(), key=_id)
            }
    return found


def _id(item: tuple[str, Any]) -> int:
    return int(item[0])


@_checked
def producers(body: bytes) -> list[Producer]:
    """Parse an answer of GET_ALL_PRODUCER_INFO; by name.

    Java clients trace through producers `_INNER_TRACE_PRODUCER-<group>-CONSUME-<number>`; the number counts the clients of
    a process, so it is left out, and those of one group and role are one producer.
    """
    found: dict[str, Producer] = {}
    for name, connections in sorted(fastjson.loads(body)["data"].items()):
        match = _TRACE_PRODUCER.fullmatch(name)
        key, trace_of, role = match.groups() if match else (name, None, None)
        producer = Producer(key, trace_of, role, _clients(connections), _hosts(connections, "remoteIP"))
        if known := found.get(key):
            producer = replace(
                producer, clients=known.clients | producer.clients, hosts=known.hosts | producer.hosts
            )
        found[key] = producer
    return [found[key] for key in sorted(found)]


def _time(ms: int) -> datetime | None:
    """UTC; None for 0 and less, which a broker sends for none."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms > 0 else None
