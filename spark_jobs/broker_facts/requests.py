"""The requests that ask a broker for facts. None of them creates or changes anything on the broker.

Codes are those of `RequestCode` of Apache RocketMQ, header fields those of its request header classes. Deliberately not
used: 352 (GET_SUBSCRIPTIONGROUP_CONFIG), which creates a group that the broker does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.requests import NO_PERMISSION, SUCCESS, SYSTEM_ERROR, TOPIC_NOT_EXIST

QUERY_MESSAGE = 12
GET_ALL_TOPIC_CONFIG = 21
GET_BROKER_CONFIG = 26
GET_BROKER_RUNTIME_INFO = 28
VIEW_MESSAGE_BY_ID = 33
GET_ALL_CONSUMER_OFFSET = 43
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
GET_TOPIC_STATS_INFO = 202
GET_CONSUMER_CONNECTION_LIST = 203
GET_ALL_PRODUCER_INFO = 328

REQUEST_CODE_NOT_SUPPORTED = 3
QUERY_NOT_FOUND = 22
CONSUMER_NOT_ONLINE = 206

# Ordinals of MQVersion. A broker before 4.9.1 does not answer an unknown code at all, so the client must know.
V4_9_4 = 401
V5_0_0 = 413


class Status(StrEnum):
    """What became of a request."""

    ANSWERED = "answered"
    ABSENT = "absent"  # the broker answered that there is none: a fact
    REFUSED = "refused"  # by the ACL
    UNSUPPORTED = "unsupported"  # the broker is too old; the request was not sent, or answered so
    TIMED_OUT = "timed_out"
    FAILED = "failed"  # another code, or the answer cannot be decoded


@dataclass(frozen=True)
class Request:
    """A request to one broker.

    Attributes:
        code: of `RequestCode`.
        name: its name there.
        permission: what the ACL of 5.x asks for it; None: a valid user is enough.
        fields: of its header.
        entity: the topic or group that it asks for; empty if it asks for all.
        since: ordinal of the first release that knows it.
    """

    code: int
    name: str
    permission: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    entity: str = ""
    since: int = 0


# Brokers of 5.5.0 return such lists in pages, and log an error with its stack if a signed request names none; earlier ones
# ignore the fields and return everything. Asked without the fields, all of them do. A broker caps a page at 2000.
_PAGE = "2000"
_TOTALS = {GET_ALL_TOPIC_CONFIG: "totalTopicNum", GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "totalGroupNum"}

_MOST_MESSAGES = 32  # more than a message has retries

RUNTIME_INFO = Request(GET_BROKER_RUNTIME_INFO, "GET_BROKER_RUNTIME_INFO")
# The consumer offsets come before the offsets of the topics: these only rise, so a max offset is never below.
OF_BROKER = (
    Request(GET_ALL_CONSUMER_OFFSET, "GET_ALL_CONSUMER_OFFSET"),
    Request(
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
        # The ACL of 5.5.0 takes the response header for the request header, and misses totalGroupNum.
        fields={"groupSeq": "0", "maxGroupNum": _PAGE, "totalGroupNum": "0"},
    ),
    Request(GET_ALL_TOPIC_CONFIG, "GET_ALL_TOPIC_CONFIG", fields={"topicSeq": "0", "maxTopicNum": _PAGE}),
    Request(GET_BROKER_CONFIG, "GET_BROKER_CONFIG"),
    Request(GET_ALL_PRODUCER_INFO, "GET_ALL_PRODUCER_INFO", "Cluster: Get", since=V4_9_4),
)


def topic_stats(topic: str) -> Request:
    """Ask for the min and max offsets of a topic's queues."""
    return Request(GET_TOPIC_STATS_INFO, "GET_TOPIC_STATS_INFO", "Topic: Get", {"topic": topic}, topic)


def consumer_connection(group: str) -> Request:
    """Ask for the connected clients of a consumer group and their subscriptions."""
    fields = {"consumerGroup": group}
    name = "GET_CONSUMER_CONNECTION_LIST"
    return Request(GET_CONSUMER_CONNECTION_LIST, name, "Group: Get", fields, group)


def message_at(offset: int) -> Request:
    """Ask for the message at a physical offset. Without a topic, the ACL of 5.x asks for a valid user only."""
    return Request(VIEW_MESSAGE_BY_ID, "VIEW_MESSAGE_BY_ID", None, {"offset": str(offset)})


def messages_with_key(topic: str, key: str, begin_ms: int, end_ms: int) -> Request:
    """Ask for the newest messages of a topic with a key or unique key, stored between two times.

    The broker compares hashes, so others may be among them.
    """
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": str(_MOST_MESSAGES),
        "beginTimestamp": str(begin_ms),
        "endTimestamp": str(end_ms),
    }
    return Request(QUERY_MESSAGE, "QUERY_MESSAGE", "Topic: Get", fields, topic)


def is_partial(request: Request, frame: Frame, count: int) -> bool:
    """Whether the `count` entries of an answer are only its first page: ask again with `without_pages`."""
    total = frame.fields.get(_TOTALS.get(request.code, ""), "")
    return bool(request.fields) and total.isdecimal() and int(total) > count


def without_pages(request: Request) -> Request:
    """The same request for everything at once."""
    return replace(request, fields={})


def status(request: Request, frame: Frame) -> Status:
    """What an answer means."""
    absent = {
        GET_CONSUMER_CONNECTION_LIST: CONSUMER_NOT_ONLINE,
        GET_TOPIC_STATS_INFO: TOPIC_NOT_EXIST,
        QUERY_MESSAGE: QUERY_NOT_FOUND,
    }
    if frame.code == SUCCESS:
        return Status.ANSWERED
    if frame.code == absent.get(request.code):
        return Status.ABSENT
    if frame.code == NO_PERMISSION or (frame.code == SYSTEM_ERROR and "AclException" in frame.remark):
        return Status.REFUSED
    if request.code == VIEW_MESSAGE_BY_ID and frame.remark.startswith("can not find message"):
        return Status.ABSENT
    return Status.UNSUPPORTED if frame.code == REQUEST_CODE_NOT_SUPPORTED else Status.FAILED
