"""Connections to the nameservers and brokers of one cluster: routes, choice of a broker, retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Self, TypeVar

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.connection import Connection, Tls, split_address
from spark_jobs.rocketmq.errors import (
    RETRYABLE,
    AccessDeniedError,
    ConnectionLostError,
    NoBrokersError,
    ProtocolError,
    QueueLocation,
    RocketMQError,
    TopicNotFoundError,
    UnreachableError,
)
from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.route import Broker, MessageQueue, decode_brokers, decode_route, union

_BACK_OFF_SECONDS = (0.1, 0.5, 2.0, 5.0)
MASTER_ID = 0
_Response = TypeVar("_Response")


def _back_off(failures: int) -> None:
    """Sleep longer after each failure, with jitter."""
    time.sleep(_BACK_OFF_SECONDS[min(failures, len(_BACK_OFF_SECONDS)) - 1] * random.uniform(0.8, 1.2))


@dataclass(eq=False, repr=False)
class ClusterConnections:
    """The connections to one cluster. A context manager; not thread-safe. No connection is opened before the first call.

    Attributes:
        namesrv: nameservers, each `host:port`.
        cluster: the cluster's name, for messages only.
        credentials: sign requests with these; None for unsigned requests.
        tls: TLS settings; None for plain TCP.
        timeout: seconds to wait for a response.
        connect_timeout: seconds to wait for a connection.
        attempts: maximum number of attempts per call when connections are lost.

    Raises:
        ValueError: an argument is invalid.
        OSError: a TLS file cannot be read.
    """

    namesrv: Sequence[str]
    cluster: str = ""
    credentials: Credentials | None = None
    tls: Tls | None = None
    _: KW_ONLY
    timeout: float = 10.0
    connect_timeout: float = 3.0
    attempts: int = 4

    def __post_init__(self) -> None:
        """Check the arguments."""
        for address in self.namesrv:
            split_address(address)
        if not self.namesrv or self.attempts < 1:
            raise ValueError("at least one nameserver and one attempt are needed")
        self._tls_context = self.tls.context() if self.tls else None
        self._connections: dict[str, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all cached connections. The next call opens new ones."""
        while self._connections:
            self._connections.popitem()[1].close()

    def queues(self, topic: str) -> list[MessageQueue]:
        """The topic's queues by broker and id: the union of the routes of all nameservers that respond.

        Raises:
            NoBrokersError: no broker is registered at the nameservers that respond: all brokers are down.
            TopicNotFoundError: the topic is unknown to every nameserver that responds.
            UnreachableError: no nameserver responds.
            RocketMQError: a nameserver rejects the request, or its response cannot be decoded.
        """
        for failures in range(1, self.attempts):
            try:
                return self._request_queues(topic)
            except ConnectionLostError:
                _back_off(failures)
        return self._request_queues(topic)

    def _request_queues(self, topic: str) -> list[MessageQueue]:
        """`queues`, with one request per nameserver."""
        fields = requests.route(topic)
        try:
            routes = self._ask_nameservers(
                requests.GET_ROUTE_INFO_BY_TOPIC, fields, "the route request", topic
            )
        except TopicNotFoundError as unknown:
            raise self._explain_missing_route(topic, unknown) from None
        return union(decode_route(topic, body) for body in routes)

    def registered_brokers(self) -> list[Broker]:
        """The brokers, of any topic, that are registered at any nameserver that responds, by name.

        A nameserver removes a broker 2 minutes after its last heartbeat.

        Raises:
            RocketMQError: no nameserver responds, or a response cannot be decoded.
        """
        code, what = requests.GET_BROKER_CLUSTER_INFO, "the request for the list of brokers"
        found: dict[str, Broker] = {}
        for body in self._ask_nameservers(code, {}, what):
            for broker in decode_brokers(body):
                known = dict(found[broker.name].addresses) if broker.name in found else {}
                addresses = tuple(sorted((known | dict(broker.addresses)).items()))
                found[broker.name] = replace(broker, addresses=addresses)
        return [found[name] for name in sorted(found)]

    def _ask_nameservers(self, code: int, fields: dict[str, str], what: str, topic: str = "") -> list[bytes]:
        """The bodies of the responses of all nameservers that respond and know the topic; at least one.

        Raises:
            TopicNotFoundError: the topic is unknown to every nameserver that responds.
            UnreachableError: no nameserver responds.
            RocketMQError: a nameserver rejects the request.
        """
        bodies: list[bytes] = []
        lost: list[str] = []
        unknown: TopicNotFoundError | None = None
        for address in self.namesrv:
            try:
                frame = self._call_nameserver(address, code, fields)
            except ConnectionLostError as error:
                lost.append(str(error))
                continue
            if frame.code == requests.SUCCESS:
                bodies.append(frame.body)
                continue
            failure = requests.failure(frame, QueueLocation(self.cluster, topic, address=address), what)
            if not isinstance(failure, TopicNotFoundError):
                raise failure
            unknown = failure
        if not bodies:
            raise unknown or UnreachableError(
                f"{QueueLocation(self.cluster, topic)}: no nameserver answers: {'; '.join(lost)}. "
                "Check the addresses, and that the nameservers run and can be reached from this machine"
            )
        return bodies

    def _explain_missing_route(self, topic: str, unknown: TopicNotFoundError) -> TopicNotFoundError:
        """A more specific error, by the registered brokers: they may be down, or the topic does not exist."""
        try:
            brokers = [broker.name for broker in self.registered_brokers()]
        except RocketMQError:
            return unknown
        location = QueueLocation(self.cluster, topic, address=", ".join(self.namesrv))
        if not brokers:
            return NoBrokersError(
                f"{location}: no broker is registered at the nameserver: all brokers are down, or cannot reach it. "
                "Start them; they register within 30 s"
            )
        return TopicNotFoundError(
            f"{location}: the nameserver has no route of the topic; it knows the brokers {', '.join(brokers)}. "
            "If a broker is missing there, it is down: start it. Otherwise the topic was deleted, or its name in the "
            "settings is wrong"
        )

    def _call_nameserver(self, address: str, code: int, fields: dict[str, str]) -> Frame:
        """Call a nameserver; retry once if it may have closed a cached connection because it was idle."""
        was_cached = address in self._connections
        try:
            return self._cached_connection(address).call(code, fields)
        except (ConnectionLostError, ProtocolError):
            self._drop(address)
            if not was_cached:
                raise
        return self._call_nameserver(address, code, fields)

    def call_broker(
        self, queue: MessageQueue, request: Callable[[Connection, QueueLocation], _Response]
    ) -> tuple[_Response, int]:
        """Run `request` on a connection to a broker of the queue; return its result and the broker id.

        It is retried if the connection is lost.

        Raises:
            RocketMQError: the error of `request`, or of the last lost connection.
        """
        failures = 0
        while True:
            address, broker_id = "", MASTER_ID
            try:
                connection, broker_id = self._open(queue, failures, self._cached_connection)
                address = connection.address
                return request(connection, self.location(queue, address)), broker_id
            except RocketMQError as error:
                self._drop(address)
                failures += 1
                queue = self._before_retry(error, queue, broker_id, failures, f"{failures} attempts")

    def call_master(
        self, queue: MessageQueue, request: Callable[[Connection, QueueLocation], _Response]
    ) -> _Response:
        """Run `request` once on a connection to the queue's master.

        Raises:
            UnreachableError: the master is not in the queue's route, or cannot be reached.
            RocketMQError: the error of `request`.
        """
        address = dict(queue.addresses).get(MASTER_ID)
        if address is None:
            raise UnreachableError(
                f"{self.location(queue)}: the route has no master of this broker; is it down?"
            )
        try:
            return request(self._cached_connection(address), self.location(queue, address))
        except RocketMQError:
            self._drop(address)
            raise

    def _before_retry(
        self, error: RocketMQError, queue: MessageQueue, broker_id: int, failures: int, note: str
    ) -> MessageQueue:
        """Wait, and return the queue with the addresses of a fresh route if there is one.

        Raises:
            RocketMQError: the error, with queue and note in its text, if a retry is useless. A slave may lag or not
                know a new topic yet, so only errors of the master are final, and denied access.
        """
        is_final = isinstance(error, AccessDeniedError) or (
            broker_id == MASTER_ID and not isinstance(error, RETRYABLE)
        )
        if is_final or failures >= self.attempts:
            location, text = str(self.location(queue)), str(error)
            text = text if text.startswith(location) else f"{location}: {text}"
            error.args = (f"{text} ({note})", *error.args[1:])
            raise error
        _back_off(failures)
        try:
            fresh = self._request_queues(queue.topic)
        except (ConnectionLostError, TopicNotFoundError):
            return queue
        return next((q for q in fresh if (q.broker, q.queue_id) == (queue.broker, queue.queue_id)), queue)

    def _open(
        self, queue: MessageQueue, failures: int, connect: Callable[[str], Connection]
    ) -> tuple[Connection, int]:
        """A connection to the queue's master or else a slave, and the broker id; after a failure start with the next address."""
        if not queue.addresses:
            raise UnreachableError(
                f"{self.location(queue)}: the route has no address of this broker; is it down?"
            )
        first = failures % len(queue.addresses)
        errors: list[str] = []
        for broker_id, address in queue.addresses[first:] + queue.addresses[:first]:
            try:
                return connect(address), broker_id
            except UnreachableError as error:
                errors.append(str(error))
        raise UnreachableError(
            f"{self.location(queue)}: no address of the broker can be reached: {'; '.join(errors)}. Check that the "
            "broker runs and that this machine can reach the addresses that it registers (brokerIP1 and listenPort)"
        )

    def _cached_connection(self, address: str) -> Connection:
        if address not in self._connections:
            self._connections[address] = self.connect(address)
        return self._connections[address]

    def connect(self, address: str) -> Connection:
        """A new connection, which the caller closes; may be called from any thread.

        Raises:
            UnreachableError: the connection could not be opened.
        """
        return Connection(
            address,
            timeout=self.timeout,
            connect_timeout=self.connect_timeout,
            credentials=self.credentials,
            tls=self._tls_context,
        )

    def _drop(self, address: str) -> None:
        if (connection := self._connections.pop(address, None)) is not None:
            connection.close()

    def location(self, queue: MessageQueue, address: str = "") -> QueueLocation:
        return QueueLocation(self.cluster, queue.topic, queue.broker, queue.queue_id, address)
