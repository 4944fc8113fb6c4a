"""Who to ask in a cluster, over which connection, and when to ask again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
from spark_jobs.rocketmq.route import Queue, decode_brokers, decode_route, union

_BACK_OFF_SECONDS = (0.1, 0.5, 2.0, 5.0)
MASTER_ID = 0
_Answer = TypeVar("_Answer")


def final(error: RocketMQError, broker_id: int) -> bool:
    """Whether asking again is of no use. A slave may lag, or not know a new topic yet: its word is not final."""
    if isinstance(error, AccessDeniedError):
        return True
    return broker_id == MASTER_ID and not isinstance(error, RETRYABLE)


def _back_off(failures: int) -> None:
    """Wait, longer after each failure, and not all clients at once."""
    time.sleep(_BACK_OFF_SECONDS[min(failures, len(_BACK_OFF_SECONDS)) - 1] * random.uniform(0.8, 1.2))


@dataclass(frozen=True, slots=True)
class Access:
    """How a cluster is spoken to.

    Attributes:
        namesrv: nameservers, each `host:port`.
        cluster: the cluster's name, for messages only.
        credentials: sign requests with these; None: do not.
        tls: speak TLS; None: plain.
        timeout: seconds to wait for an answer.
        connect_timeout: seconds to wait for a connection.
        attempts: how often a call is made in all while connections get lost.
    """

    namesrv: Sequence[str]
    cluster: str = ""
    credentials: Credentials | None = None
    tls: Tls | None = None
    timeout: float = 10.0
    connect_timeout: float = 3.0
    attempts: int = 4

    def __post_init__(self) -> None:
        """Check the values; raises ValueError."""
        for address in self.namesrv:
            split_address(address)
        if not self.namesrv or self.attempts < 1:
            raise ValueError("at least one nameserver and one attempt are needed")


class Brokers:
    """The connections to one cluster's nameservers and brokers. Not for several threads at once."""

    def __init__(self, access: Access) -> None:
        """Nothing is asked yet; raises OSError if a TLS file cannot be read."""
        self.access = access
        self._tls = access.tls.context() if access.tls is not None else None
        self._connections: dict[str, Connection] = {}

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._connections:
            self._connections.popitem()[1].close()

    def queues(self, topic: str) -> list[Queue]:
        """The topic's queues by broker and id: the union of what every nameserver that answers knows.

        Raises:
            TopicNotFoundError: no nameserver that answers knows the topic.
            UnreachableError: no nameserver answers.
            RocketMQError: a nameserver refuses, or answers nonsense.
        """
        failures = 0
        while True:
            try:
                return self._queues_now(topic)
            except ConnectionLostError:
                failures += 1
                if failures >= self.access.attempts:
                    raise
            _back_off(failures)

    def _queues_now(self, topic: str) -> list[Queue]:
        """`queues`, each nameserver asked once."""
        routes: list[list[Queue]] = []
        silent: list[ConnectionLostError] = []
        unknown: RocketMQError | None = None
        for address in self.access.namesrv:
            try:
                frame = self._call(address, requests.GET_ROUTE_INFO_BY_TOPIC, requests.route(topic))
            except ConnectionLostError as error:
                silent.append(error)
                continue
            if frame.code == requests.SUCCESS:
                routes.append(decode_route(topic, bytes(frame.body)))
                continue
            unknown = requests.failure(
                frame, QueueLocation(self.access.cluster, topic, address=address), "the route"
            )
            if not isinstance(unknown, TopicNotFoundError):
                raise unknown
        if routes:
            return union(routes)
        if unknown is not None:
            raise self._no_route(topic, unknown)
        raise UnreachableError(
            f"{QueueLocation(self.access.cluster, topic)}: no nameserver answers: {'; '.join(map(str, silent))}. "
            "Check the addresses, and that the nameservers run and can be reached from this machine"
        )

    def registered(self) -> set[str]:
        """The names of the brokers that any nameserver knows that answers; a broker is forgotten 2 minutes after its death.

        Raises:
            RocketMQError: no nameserver answers, or one answers nonsense.
        """
        names: set[str] = set()
        lost: ConnectionLostError | None = None
        answers = 0
        for address in self.access.namesrv:
            try:
                frame = self._call(address, requests.GET_BROKER_CLUSTER_INFO, {})
            except ConnectionLostError as error:
                lost = error
                continue
            if frame.code != requests.SUCCESS:
                raise requests.failure(
                    frame, QueueLocation(self.access.cluster, address=address), "the list of brokers"
                )
            names |= decode_brokers(bytes(frame.body))
            answers += 1
        if lost is not None and not answers:
            raise lost
        return names

    def _no_route(self, topic: str, unknown: RocketMQError) -> RocketMQError:
        """Why the nameservers have no route: the brokers of a topic may be down, or it is not there."""
        try:
            brokers = self.registered()
        except RocketMQError:
            return unknown
        place = QueueLocation(self.access.cluster, topic, address=", ".join(self.access.namesrv))
        if not brokers:
            return NoBrokersError(
                f"{place}: no broker is registered at the nameserver: all brokers are down, or they do not reach it. "
                "Start them; they register within 30 s"
            )
        return TopicNotFoundError(
            f"{place}: the nameserver has no route of the topic; it knows the brokers {', '.join(sorted(brokers))}. If one is "
            "missing there, it is down: start it. Else the topic was deleted, or the settings name another one"
        )

    def _call(self, address: str, code: int, fields: dict[str, str]) -> Frame:
        """A nameserver's answer; a kept connection may have been closed for being idle, so it gets a second try."""
        kept = address in self._connections
        try:
            return self._connection(address).call(code, fields)
        except (ConnectionLostError, ProtocolError):
            self._drop(address)
            if not kept:
                raise
        return self._call(address, code, fields)

    def ask(self, queue: Queue, once: Callable[[Connection, QueueLocation], _Answer]) -> tuple[_Answer, int]:
        """What `once` returns, given a connection to a broker of the queue, and the id of the broker that answered.

        It is asked again while connections get lost.

        Raises:
            RocketMQError: what `once` raises, or the last lost connection.
        """
        failures = 0
        while True:
            address, broker_id = "", MASTER_ID
            try:
                connection, broker_id = self.open(queue, failures, cached=True)
                address = connection.address
                return once(connection, self.place(queue, connection)), broker_id
            except RocketMQError as error:
                self._drop(address)
                failures += 1
                if final(error, broker_id) or failures >= self.access.attempts:
                    error.args = (f"{self.placed(queue, error)} (asked {failures} times)", *error.args[1:])
                    raise
            queue = self.pause(queue, failures)

    def pause(self, queue: Queue, failures: int) -> Queue:
        """Wait before the next attempt, and take the queue's addresses from a fresh route if there is one."""
        _back_off(failures)
        try:
            fresh = self._queues_now(queue.topic)
        except (ConnectionLostError, TopicNotFoundError):
            return queue
        return next((q for q in fresh if (q.broker, q.queue_id) == (queue.broker, queue.queue_id)), queue)

    def open(self, queue: Queue, failures: int, cached: bool = False) -> tuple[Connection, int]:
        """A connection to the queue's master or else a slave; after a failure begin with the next address."""
        if not queue.addresses:
            raise UnreachableError(
                f"{self.place(queue)}: the route has no address of this broker; is it down?"
            )
        turn = failures % len(queue.addresses)
        errors: list[str] = []
        for broker_id, address in queue.addresses[turn:] + queue.addresses[:turn]:
            try:
                return (self._connection(address) if cached else self._connect(address)), broker_id
            except UnreachableError as error:
                errors.append(str(error))
        raise UnreachableError(
            f"{self.place(queue)}: no address of the broker can be reached: {'; '.join(errors)}. Check that the broker "
            "runs and that this machine can reach the addresses it has registered (brokerIP1 and listenPort)"
        )

    def _connection(self, address: str) -> Connection:
        if address not in self._connections:
            self._connections[address] = self._connect(address)
        return self._connections[address]

    def _connect(self, address: str) -> Connection:
        return Connection(
            address,
            timeout=self.access.timeout,
            connect_timeout=self.access.connect_timeout,
            credentials=self.access.credentials,
            tls=self._tls,
        )

    def _drop(self, address: str) -> None:
        if (connection := self._connections.pop(address, None)) is not None:
            connection.close()

    def place(self, queue: Queue, connection: Connection | None = None) -> QueueLocation:
        address = connection.address if connection is not None else ""
        return QueueLocation(self.access.cluster, queue.topic, queue.broker, queue.queue_id, address)

    def placed(self, queue: Queue, error: RocketMQError) -> str:
        """The error's text, with the queue named if it does not name it yet."""
        place, text = str(self.place(queue)), str(error)
        return text if text.startswith(place) else f"{place}: {text}"
