"""What can go wrong between this process and a RocketMQ cluster, by what the caller does about it.

Every message names the cluster, topic, broker, queue, address and offsets that are known, and ends with
what to do. No message ever holds a secret: access keys, secret keys and tokens are not passed in here.
"""

from __future__ import annotations

from dataclasses import dataclass


class RocketMQError(Exception):
    """Base of every error that this package raises, but for wrong arguments (`ValueError`)."""


class ConnectionLostError(RocketMQError):
    """The connection ended, or could not be made. Asking again over a new one may help."""


class UnreachableError(ConnectionLostError):
    """No address of the broker, or no nameserver, accepted a connection."""


class RequestTimeoutError(ConnectionLostError):
    """The connection stands, but no answer came in time."""


class ProtocolError(RocketMQError):
    """What came is not a frame, or not a message, of RocketMQ's remoting protocol."""


class MalformedMessageError(ProtocolError):
    """A stored message whose own lengths do not add up; `at` is its place in the answer's body, bytes."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message, at)
        self.at = at

    def __str__(self) -> str:
        return str(self.args[0])


class AccessDeniedError(RocketMQError):
    """The cluster refuses this client: codes 16, and 1 where an ACL of 4.x says so."""


class AuthenticationError(AccessDeniedError):
    """The cluster does not know the access key, or the signature is wrong, or one is required."""


class PermissionDeniedError(AccessDeniedError):
    """The client is known (or need not be) and may not do this on this topic, group or queue."""


class TopicNotFoundError(RocketMQError):
    """Code 17: no nameserver that answered knows the topic, or the broker does not."""


class NoBrokersError(TopicNotFoundError):
    """The nameservers that answer know no broker at all: all brokers of the cluster are down."""


class QueueNotFoundError(RocketMQError):
    """Code 29: the broker has no such queue of the topic."""


class ConsumerGroupNotFoundError(RocketMQError):
    """Code 26: the broker does not know the consumer group, and does not create groups by itself."""


class OffsetMovedError(RocketMQError):
    """Code 21: the broker has no message at that offset; it has [`min_offset`, `max_offset`)."""

    def __init__(self, message: str, min_offset: int, max_offset: int) -> None:
        super().__init__(message, min_offset, max_offset)
        self.min_offset = min_offset
        self.max_offset = max_offset

    def __str__(self) -> str:
        return str(self.args[0])


class ShortRangeError(RocketMQError):
    """The broker did not give every message of the range: the first missing one is `offset`."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message, offset)
        self.offset = offset

    def __str__(self) -> str:
        return str(self.args[0])


class BrokerError(RocketMQError):
    """Any other response code; `code` is the broker's (class ResponseCode of the Java client)."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])


class BrokerBusyError(BrokerError):
    """Codes 2 and 215: the broker has too much to do, or holds this client back; asking later may help."""


# After these the same question, asked again, may be answered.
RETRYABLE = (ConnectionLostError, ProtocolError, BrokerError)


@dataclass(frozen=True, slots=True)
class QueueLocation:
    """Where something went wrong; `str()` lists what is known, for a message."""

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
