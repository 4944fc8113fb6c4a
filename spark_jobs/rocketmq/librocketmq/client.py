"""A client that reads exact ranges of messages through `librocketmq`, with the methods of `rocketmq.client.Client`."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Never, Self

from .. import requests
from ..acl import Credentials
from ..client import Bounds
from ..connection import split_address
from ..errors import (
    RETRYABLE,
    ConnectionLostError,
    QueueLocation,
    RequestTimeoutError,
    RocketMQError,
    ShortRangeError,
    TopicNotFoundError,
    UnreachableError,
)
from ..frames import RESPONSE_FLAG, Frame
from ..message import MAX_INFLATED_BYTES, Message
from ..properties import Properties
from ..route import MessageQueue
from .limits import NO_BROKERS, NO_TIME, NO_TOKEN, LibraryError, UnsupportedError, UsedAfterForkError
from .process import START_SECONDS, LibraryProcess

_BACK_OFF_SECONDS = (0.1, 0.5, 2.0, 5.0)
_CONNECT_SECONDS = 3.0
# The last known max offset of each queue that this process has asked for: see `Consumer.bounds`.
_LAST_ENDS: dict[tuple[tuple[str, ...], MessageQueue], int] = {}
# Where `Message` has the properties, which travel as bytes.
_PROPERTIES = Message._fields.index("properties")


@dataclass(eq=False, repr=False)
class LibraryClient:
    """Reads topics of one cluster through the library. A context manager; not thread-safe.

    The library runs in a process of its own, which is started by the first call. It decides which nameserver it asks, and
    whether a master or, if no master is in the route, a slave answers: it does not say which one did. After a lost
    connection the call is retried with a back-off, up to `attempts` times in all.

    Attributes:
        namesrv: nameservers, each `host:port`.
        cluster: the cluster's name, for messages only.
        credentials: sign requests with these; None for unsigned requests.
        timeout: seconds to wait for the library, per request or batch. The library itself waits 3 to 10 s for a broker.
        attempts: maximum number of attempts per call when connections are lost.
        max_inflated_bytes: a body that inflates to more is an error.
        consumer_group: the group of the consumer.

    Raises:
        ValueError: an argument is invalid.
        UnsupportedError: the credentials have a security token.

    Every call may raise:
        UsedAfterForkError: another process has opened this client.
        LibraryError: the library is missing, has another interface, or crashed.
    """

    namesrv: Sequence[str]
    cluster: str = ""
    credentials: Credentials | None = None
    _: KW_ONLY
    timeout: float = 10.0
    attempts: int = 4
    max_inflated_bytes: int = MAX_INFLATED_BYTES
    consumer_group: str = requests.TOOLS_CONSUMER

    def __post_init__(self) -> None:
        """Check the arguments."""
        for address in self.namesrv:
            split_address(address)
        if not self.namesrv or self.attempts < 1:
            raise ValueError("at least one nameserver and one attempt are needed")
        if self.credentials is not None and self.credentials.security_token:
            raise UnsupportedError(f"{QueueLocation(self.cluster)}: {NO_TOKEN}")
        self._process: LibraryProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the library's process. The next call starts another one."""
        if self._process is not None:
            self._process.close()
            self._process = None

    @property
    def library_pid(self) -> int | None:
        """The process id of the library; None before the first call."""
        return self._process.pid if self._process else None

    def location(self, queue: MessageQueue, address: str = "") -> QueueLocation:
        return QueueLocation(self.cluster, queue.topic, queue.broker, queue.queue_id, address)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The topic's readable queues by broker and id, from the route of one nameserver; they have no addresses.

        Raises:
            TopicNotFoundError: the topic is unknown to the nameserver, or no broker has a readable queue of it.
            UnreachableError: no nameserver responds.
        """
        where = QueueLocation(self.cluster, topic)
        found = self._call(where, "queues", topic)
        return [MessageQueue(topic, broker, queue_id, ()) for broker, queue_id in found]

    def bounds(self, queue: MessageQueue) -> Bounds:
        """Min offset and max offset from the same broker."""
        key = tuple(self.namesrv), queue
        known = [_LAST_ENDS[key]] if key in _LAST_ENDS else []
        low, high = self._of_queue(queue, "bounds", *known)
        _LAST_ENDS[key] = high
        return Bounds(low, max(low, high))

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the broker still has."""
        return self.bounds(queue).min_offset

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self.bounds(queue).max_offset

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> Never:
        """Raises UnsupportedError: the library has no such request."""
        raise UnsupportedError(f"{self.location(queue)}: {NO_TIME}")

    def registered_brokers(self) -> Never:
        """Raises UnsupportedError: the library has no such request."""
        raise UnsupportedError(f"{QueueLocation(self.cluster)}: {NO_BROKERS}")

    def message_at(self, queue: MessageQueue, offset: int) -> Message | None:
        """The message at an offset; None if the broker has none there (expired, or not written yet).

        Raises:
            ShortRangeError: the offset is within the broker's bounds, but no message is returned.
            RocketMQError: as `read`.
        """
        fields = self._of_queue(queue, "message_at", offset, self.max_inflated_bytes)
        return None if fields is None else _message(fields)

    def read(self, queue: MessageQueue, start: int, end: int) -> Iterator[list[Message]]:
        """Yield every message of [start, end) exactly once, in order, in lists of at most 32.

        Raises:
            OffsetMovedError: part of the range has expired or was never written.
            ShortRangeError: the broker does not return all of it.
            UnsupportedError: the library cannot read a message of it.
            RocketMQError: a message differs from the stored one, the broker cannot be reached or rejects the request.
        """
        position, failures = start, 0
        where = self.location(queue)
        while position < end:
            process: LibraryProcess | None = None
            try:
                process, self._process = self._started(), None  # a call during the read starts another one
                process.send(
                    "read", queue.topic, queue.broker, queue.queue_id, position, end, self.max_inflated_bytes
                )
                while (batch := self._response(where, process)) is not None:
                    messages = [_message(fields) for fields in batch]
                    yield messages
                    position, failures = position + len(messages), 0
                if position < end:
                    raise LibraryError(f"{where}: the library ended a read of [{start}, {end}) at {position}")
                self.close()
                self._process, process = process, None
            except RocketMQError as error:
                failures += 1
                self._before_retry(
                    error, where, failures, f"reading [{start}, {end}) ended before {position}"
                )
            finally:
                if process is not None:  # the rest of the range may be on its way
                    process.close()

    def _of_queue(self, queue: MessageQueue, method: str, *arguments: Any) -> Any:
        return self._call(self.location(queue), method, queue.topic, queue.broker, queue.queue_id, *arguments)

    def _call(self, where: QueueLocation, method: str, *arguments: Any) -> Any:
        """The library's result of a method of `Consumer`."""
        failures = 0
        while True:
            try:
                process = self._started()
                process.send(method, *arguments)
                return self._response(where, process)
            except RocketMQError as error:
                failures += 1
                self._before_retry(error, where, failures, f"{failures} attempts")

    def _started(self) -> LibraryProcess:
        """The library's process, with a consumer that is started."""
        if self._process is None:
            process = LibraryProcess()
            try:
                keys = self.credentials
                signed = keys and (keys.access_key, keys.secret_key)
                process.send("start", ";".join(self.namesrv), self.consumer_group, signed)
                self._response(QueueLocation(self.cluster), process, START_SECONDS)
            except BaseException:
                process.close()
                raise
            self._process = process
        return self._process

    def _response(self, where: QueueLocation, process: LibraryProcess, seconds: float = 0.0) -> Any:
        """The value of the next response; raises the error that it contains."""
        kind, *values = process.receive(seconds or self.timeout)
        if kind != "error":
            return values[0]
        name, arguments = values
        if name == "call":
            call, reasons = arguments
            raise self._failed(where, call, reasons)
        if name == "moved":
            low, high = arguments
            frame = Frame(
                requests.PULL_OFFSET_MOVED, 0, RESPONSE_FLAG, "", {"minOffset": str(low), "maxOffset": str(high)}, b""
            )  # fmt: skip
            raise requests.failure(frame, where, "pull")
        if name == "short":
            offset, low, high, why = arguments
            raise ShortRangeError(
                f"{where}: the broker reports the offsets [{low}, {high}) and returned {why} at offset {offset}. No message "
                "was skipped: plan again, and if this offset is still missing, check its store for lost or damaged files",
                offset,
            )
        kinds = {"unsupported": UnsupportedError, "fork": UsedAfterForkError}
        raise kinds.get(name, LibraryError)(f"{where}: {arguments[0]}")

    def _failed(self, where: QueueLocation, call: str, reasons: list[tuple[int, str]]) -> RocketMQError:
        """The error for a call that failed, with the broker's code if the library has logged one."""
        for code, remark in reasons:
            if code >= 0:
                return requests.failure(Frame(code, 0, RESPONSE_FLAG, remark, {}, b""), where, call)
        said = "; ".join(dict.fromkeys(text for _, text in reasons)) or "no reason in its log"
        what = f"{where}: {call} through librocketmq failed: {said}"
        if not self._nameserver_listens():
            return UnreachableError(f"{what}. No nameserver accepts a connection: {', '.join(self.namesrv)}")
        if "timeout" in said:
            return RequestTimeoutError(f"{what}. The nameserver or the broker did not answer")
        if where.queue_id is None:
            return TopicNotFoundError(
                f"{what}. Check the topic's name, that it exists in this cluster, that its brokers run, and that its perm "
                "permits reading"
            )
        return ConnectionLostError(f"{what}. Check that the broker runs and can be reached from this machine")

    def _nameserver_listens(self) -> bool:
        for address in self.namesrv:
            with suppress(OSError), socket.create_connection(split_address(address), _CONNECT_SECONDS):
                return True
        return False

    def _before_retry(self, error: RocketMQError, where: QueueLocation, failures: int, note: str) -> None:
        """Wait, and start another process; raises the error if a retry is useless."""
        if not isinstance(error, UsedAfterForkError):
            self.close()
        if not isinstance(error, RETRYABLE) or failures >= self.attempts:
            text = str(error)
            text = text if text.startswith(str(where)) else f"{where}: {text}"
            error.args = (f"{text} ({note})", *error.args[1:])
            raise error
        time.sleep(_BACK_OFF_SECONDS[min(failures, len(_BACK_OFF_SECONDS)) - 1])


def _message(fields: tuple[Any, ...]) -> Message:
    return Message._make((*fields[:_PROPERTIES], Properties(fields[_PROPERTIES]), *fields[_PROPERTIES + 1 :]))
