"""The requests that are used, and what the broker's response codes mean to a caller.

Codes are those of `RequestCode` and `ResponseCode` of Apache RocketMQ 5.5.0; header fields those of the
request header classes of the same names.
"""

from __future__ import annotations

from spark_jobs.rocketmq import errors
from spark_jobs.rocketmq.errors import QueueLocation
from spark_jobs.rocketmq.frames import Frame

PULL_MESSAGE = 11
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
SUBSCRIPTION_GROUP_NOT_EXIST = 26
INVALID_PARAMETER = 29
FLOW_CONTROL = 215
GO_AWAY = 1500

BUSY = frozenset({SYSTEM_BUSY, FLOW_CONTROL})

# Every broker creates this group when it starts (SubscriptionGroupManager.init), so it is there with
# autoCreateSubscriptionGroup=false, and it is exempt from the flow control of cold data.
TOOLS_CONSUMER = "TOOLS_CONSUMER"

# Only FLAG_SUBSCRIPTION: no commit of an offset (1), no suspension when there is nothing (2). With the
# subscription in the request the group needs no consumer that has registered by heartbeat.
_PULL_SYS_FLAG = "4"


def route(topic: str) -> dict[str, str]:
    """Fields of GET_ROUTE_INFO_BY_TOPIC; a nameserver before 4.9.4 ignores the second."""
    return {"topic": topic, "acceptStandardJsonOnly": "true"}


def offset_of(topic: str, queue_id: int) -> dict[str, str]:
    """Fields of GET_MIN_OFFSET and GET_MAX_OFFSET."""
    return {"topic": topic, "queueId": str(queue_id)}


def offset_by_time(topic: str, queue_id: int, timestamp_ms: int) -> dict[str, str]:
    """Fields of SEARCH_OFFSET_BY_TIMESTAMP: the first message stored at or after the time.

    Brokers from 5.0 on keep to `boundaryType`; earlier ones take the message nearest to the time.
    """
    return {**offset_of(topic, queue_id), "timestamp": str(timestamp_ms), "boundaryType": "LOWER"}


def pull(topic: str, queue_id: int, offset: int, count: int, group: str) -> dict[str, str]:
    """Fields of PULL_MESSAGE: up to `count` messages of all tags, without waiting and without a commit."""
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


def number(frame: Frame, name: str, place: QueueLocation) -> int:
    """A numeric field of an answer.

    Raises:
        ProtocolError: the field is missing or no number.
    """
    text = frame.fields.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise errors.ProtocolError(f"{place}: the answer's {name} is {text!r} and no number") from None


def rejected(frame: Frame) -> bool:
    """Whether a slave refused a pull because its slaveReadEnable is false, which is the default.

    `PullMessageProcessor.rejectRequest` has no other reason, though the remark speaks of a busy system.
    """
    return frame.code == SYSTEM_BUSY and frame.remark.startswith("[REJECTREQUEST]")


def failure(frame: Frame, place: QueueLocation, asked: str) -> errors.RocketMQError:
    """The error that an answer with a code other than 0 stands for.

    Args:
        frame: the answer.
        place: whom was asked about what.
        asked: what was asked for, such as `pull of 32 messages at offset 7`.
    """
    what = f"{place}: {asked} failed with code {frame.code}"
    said = f" ({' '.join(frame.remark.split())[:300]})" if frame.remark else ""
    if frame.code == NO_PERMISSION or (frame.code == SYSTEM_ERROR and "AclException" in frame.remark):
        return _denied(frame.remark, what + said)
    if frame.code == TOPIC_NOT_EXIST:
        return errors.TopicNotFoundError(
            f"{what}{said}. Check the topic's name, and that this cluster has it"
        )
    if frame.code == INVALID_PARAMETER:
        return errors.QueueNotFoundError(f"{what}{said}. Plan again: the topic's queues have changed")
    if frame.code == PULL_OFFSET_MOVED:
        low, high = number(frame, "minOffset", place), number(frame, "maxOffset", place)
        return errors.OffsetMovedError(
            f"{what}{said}: the broker has the offsets [{low}, {high}). Below {low} they have expired; above "
            f"{high} they never were in this life of the queue: was the topic deleted and made anew?",
            low,
            high,
        )
    if rejected(frame):
        advice = "Bring the master back, or set slaveReadEnable=true on the slave"
        return errors.BrokerBusyError(
            f"{what}{said}: a slave refuses pulls unless it is told otherwise. {advice}", frame.code
        )
    if frame.code in BUSY:
        return errors.BrokerBusyError(
            f"{what}{said}. Read at a quieter time, or with fewer pullsInFlight", frame.code
        )
    if frame.code == SUBSCRIPTION_GROUP_NOT_EXIST:
        advice = "Create the consumer group, or leave the option consumerGroup at TOOLS_CONSUMER"
        return errors.ConsumerGroupNotFoundError(f"{what}{said}. {advice}")
    return errors.BrokerError(f"{what}{said}", frame.code)


def _denied(remark: str, what: str) -> errors.AccessDeniedError:
    # A broker of 4.x ends its remark with a place in its class PlainPermissionManager.
    words = remark.split(", org.apache.", 1)[0].lower()
    about_identity = any(
        word in words for word in ("signature", "accesskey", "access key", "acl config", "authentica", "user")
    )
    if about_identity and "permission" not in words:
        return errors.AuthenticationError(
            f"{what}. Check the access key and secret key in the environment of this process "
            "(option credentialsEnv, or credentials_env in the settings)"
        )
    return errors.PermissionDeniedError(
        f"{what}. Grant this user Sub and Get on the topic and Sub on the consumer group, or make the topic readable"
    )
