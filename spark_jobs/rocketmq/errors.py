"""Errors between this process and a RocketMQ cluster, one class per reaction of the caller.

Every message names the known cluster, topic, broker, queue, address and offsets, and ends with the action to take.
No message contains a secret: access keys, secret keys and tokens are never passed to this module.
"""

from __future__ import annotations

from dataclasses import dataclass


class RocketMQError(Exception):
    """Base of every error that this package raises, except for wrong arguments (`ValueError`)."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ConnectionLostError(RocketMQError):
    """The connection ended or could not be opened. A retry on a new connection may succeed."""


class UnreachableError(ConnectionLostError):
    """No address of the broker, or no nameserver, accepted a connection."""


class RequestTimeoutError(ConnectionLostError):
    """The connection is open, but no response arrived in time."""


class ProtocolError(RocketMQError):
    """The received bytes are not a frame, or not a message, of RocketMQ's remoting protocol."""


class MalformedMessageError(ProtocolError):
    """The lengths inside a stored message are inconsistent; `at` is its byte position in the response body."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message, at)
        self.at = at


class AccessDeniedError(RocketMQError):
    """The cluster denies access to this client: code 16, and code 1 from the ACL of 4.x."""


class AuthenticationError(AccessDeniedError):
    """The access key is unknown, the signature is wrong, or the cluster requires credentials."""


class PermissionDeniedError(AccessDeniedError):
    """The client may not read this topic, consumer group or queue; its identity is accepted."""


class TopicNotFoundError(RocketMQError):
    """Code 17: the topic is unknown to the broker, or to every nameserver that responded."""


class NoBrokersError(TopicNotFoundError):
    """No broker is registered at the nameservers that responded: all brokers of the cluster are down."""


class QueueNotFoundError(RocketMQError):
    """Code 29: the broker has no such queue of the topic."""


class ConsumerGroupNotFoundError(RocketMQError):
    """Code 26: the consumer group does not exist, and the broker does not create groups automatically."""


class OffsetMovedError(RocketMQError):
    """Code 21: the broker has no message at that offset; it has [`min_offset`, `max_offset`)."""

    def __init__(self, message: str, min_offset: int, max_offset: int) -> None:
        super().__init__(message, min_offset, max_offset)
        self.min_offset = min_offset
        self.max_offset = max_offset


class ShortRangeError(RocketMQError):
    """The broker did not return every message of the range; the first missing one is at `offset`."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message, offset)
        self.offset = offset


class BrokerError(RocketMQError):
    """Any other response code; `code` is the broker's (class ResponseCode of the Java client)."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code


class BrokerBusyError(BrokerError):
    """Codes 2 and 215: the broker is overloaded or throttles this client. A later retry may succeed."""


# After these errors a retry of the same request may succeed.
RETRYABLE = (ConnectionLostError, ProtocolError, BrokerError)


@dataclass(frozen=True, slots=True)
class QueueLocation:
    """Where an error occurred; `str()` lists the known parts, for a message."""

    cluster: str = ""
    topic: str = ""
    broker: str = ""
    queue_id: int | None = None
    address: str = ""

    def __str__(self) -> str:
        parts = [
            self.cluster and f"cluster {self.cluster}",
            self.topic and f"topic {self.topic}",
            self.broker and f"broker {self.broker}",
            "" if self.queue_id is None else f"queue {self.queue_id}",
            self.address and f"at {self.address}",
        ]
        return ", ".join(part for part in parts if part) or "RocketMQ"


def of_cluster(cluster: str, error: object) -> str:
    """An error as text that begins with its cluster; most errors of this module do already."""
    text = str(error)
    return text if text.startswith(str(QueueLocation(cluster))) else f"{QueueLocation(cluster)}: {text}"
