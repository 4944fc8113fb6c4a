"""The requests that this client sends, and the errors for the broker's response codes.

Codes are those of `RequestCode` and `ResponseCode` of Apache RocketMQ 5.5.0; header fields are those of its request
header classes.
"""

from __future__ import annotations

from spark_jobs.rocketmq import errors
from spark_jobs.rocketmq.errors import QueueLocation
from spark_jobs.rocketmq.frames import Frame

PULL_MESSAGE = 11
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
SEARCH_OFFSET_BY_TIMESTAMP = 29
GET_MAX_OFFSET = 30
GET_MIN_OFFSET = 31
GET_ROUTE_INFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106

SUCCESS = 0
SYSTEM_ERROR = 1
SYSTEM_BUSY = 2
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
PULL_NOT_FOUND = 19
PULL_RETRY_IMMEDIATELY = 20
PULL_OFFSET_MOVED = 21
QUERY_NOT_FOUND = 22
SUBSCRIPTION_GROUP_NOT_EXIST = 26
INVALID_PARAMETER = 29
FLOW_CONTROL = 215
GO_AWAY = 1500

BUSY = frozenset({SYSTEM_BUSY, FLOW_CONTROL})
# Codes of a pull that did not fail; only SUCCESS comes with messages.
PULL_RESPONSES = frozenset({SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY})

# Every broker creates this group at startup (SubscriptionGroupManager.init), so it also exists with
# autoCreateSubscriptionGroup=false. It is exempt from the flow control of cold data.
TOOLS_CONSUMER = "TOOLS_CONSUMER"

# Only FLAG_SUBSCRIPTION: no offset commit (1), no long polling (2). With the subscription in the request, the group
# needs no consumer that has registered by heartbeat.
_PULL_SYS_FLAG = "4"


def route(topic: str) -> dict[str, str]:
    """Fields of GET_ROUTE_INFO_BY_TOPIC; a nameserver before 4.9.4 ignores the second."""
    return {"topic": topic, "acceptStandardJsonOnly": "true"}


def queue_offset(topic: str, queue_id: int) -> dict[str, str]:
    """Fields of GET_MIN_OFFSET and GET_MAX_OFFSET."""
    return {"topic": topic, "queueId": str(queue_id)}


def offset_by_time(topic: str, queue_id: int, timestamp_ms: int) -> dict[str, str]:
    """Fields of SEARCH_OFFSET_BY_TIMESTAMP: the first message stored at or after the time.

    Brokers from 5.0 on obey `boundaryType`; earlier ones return the message nearest to the time.
    """
    return {**queue_offset(topic, queue_id), "timestamp": str(timestamp_ms), "boundaryType": "LOWER"}


def committed_offset(topic: str, queue_id: int, group: str) -> dict[str, str]:
    """Fields of QUERY_CONSUMER_OFFSET. Brokers from 5.0 on obey `setZeroIfNotFound`."""
    return {**queue_offset(topic, queue_id), "consumerGroup": group, "setZeroIfNotFound": "false"}


def commit_offset(topic: str, queue_id: int, group: str, offset: int) -> dict[str, str]:
    """Fields of UPDATE_CONSUMER_OFFSET: `offset` is the one that the group reads next."""
    return {**queue_offset(topic, queue_id), "consumerGroup": group, "commitOffset": str(offset)}


def pull(topic: str, queue_id: int, offset: int, count: int, group: str) -> dict[str, str]:
    """Fields of PULL_MESSAGE: up to `count` messages of all tags, without long polling and without a commit."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": _PULL_SYS_FLAG,
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def number(frame: Frame, name: str, location: QueueLocation) -> int:
    """A numeric field of a response.

    Raises:
        ProtocolError: the field is missing or not a number.
    """
    text = frame.fields.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise errors.ProtocolError(
            f"{location}: field {name} of the response is {text!r}, not a number"
        ) from None


def is_rejected_by_slave(frame: Frame) -> bool:
    """Whether a slave rejected a pull because its slaveReadEnable is false, which is the default.

    `PullMessageProcessor.rejectRequest` has no other reason, although the remark mentions a busy system.
    """
    return frame.code == SYSTEM_BUSY and frame.remark.startswith("[REJECTREQUEST]")


def is_reset(frame: Frame, offset: int) -> bool:
    """Whether a broker rejected a pull at an offset that it has.

    A broker from 5.0 on does so once per queue, after the offsets of the consumer group were reset (`PullMessageProcessor`).
    """
    low, high = (int(frame.fields.get(name) or 0) for name in ("minOffset", "maxOffset"))
    return frame.code == PULL_OFFSET_MOVED and low <= offset < high


def failure(frame: Frame, location: QueueLocation, request: str) -> errors.RocketMQError:
    """The error for a response with a code other than 0.

    Args:
        frame: the response.
        location: the recipient of the request.
        request: the request in words, such as `pull of 32 messages at offset 7`.
    """
    what = f"{location}: {request} failed with code {frame.code}"
    if frame.remark:
        what += f" ({' '.join(frame.remark.split())[:300]})"
    if frame.code == NO_PERMISSION or (frame.code == SYSTEM_ERROR and "AclException" in frame.remark):
        return _access_denied(frame.remark, what)
    if frame.code == TOPIC_NOT_EXIST:
        return errors.TopicNotFoundError(
            f"{what}. Check the topic's name, and that it exists in this cluster"
        )
    if frame.code == INVALID_PARAMETER:
        return errors.QueueNotFoundError(f"{what}. Plan again: the topic's queues have changed")
    if frame.code == PULL_OFFSET_MOVED:
        low, high = number(frame, "minOffset", location), number(frame, "maxOffset", location)
        return errors.OffsetMovedError(
            f"{what}: the broker has the offsets [{low}, {high}). Offsets below {low} have expired; offsets from "
            f"{high} on were never written since the queue was created: was the topic deleted and recreated?",
            low,
            high,
        )
    if is_rejected_by_slave(frame):
        advice = "Start the master, or set slaveReadEnable=true on the slave"
        return errors.BrokerBusyError(f"{what}: slaves reject pulls by default. {advice}", frame.code)
    if frame.code in BUSY:
        advice = "Read at a quieter time, or with fewer pullsInFlight"
        return errors.BrokerBusyError(f"{what}. {advice}", frame.code)
    if frame.code == SUBSCRIPTION_GROUP_NOT_EXIST:
        advice = "Create the consumer group, or leave the option consumerGroup at TOOLS_CONSUMER"
        return errors.ConsumerGroupNotFoundError(f"{what}. {advice}")
    return errors.BrokerError(what, frame.code)


def _access_denied(remark: str, what: str) -> errors.AccessDeniedError:
    # A broker of 4.x appends the source line in its class PlainPermissionManager to the remark.
    words = remark.split(", org.apache.", 1)[0].lower()
    is_about_identity = any(
        word in words for word in ("signature", "accesskey", "access key", "acl config", "authentica", "user")
    )
    if is_about_identity and "permission" not in words:
        return errors.AuthenticationError(
            f"{what}. Check the access key and secret key in the environment of this process "
            "(option credentialsEnv, or credentials_env in the settings), or in the Airflow connection"
        )
    return errors.PermissionDeniedError(
        f"{what}. Grant this user Sub and Get on the topic and Sub on the consumer group, or make the topic readable"
    )
