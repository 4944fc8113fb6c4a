"""A RocketMQ cluster as an Airflow connection of type `rocketmq` describes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook, Connection

from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import Tls, split_address
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.rocketmq.group_offsets import commit_offset, committed_offset
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.namespace import with_namespace
from spark_jobs.rocketmq.requests import TOOLS_CONSUMER
from spark_jobs.rocketmq.route import MessageQueue
from spark_jobs.rocketmq.unread import Unread, stored_at, unread

DEFAULT_PORT = 9876
EXTRA_TLS = ("tls_verify", "tls_ca_file", "tls_cert_file", "tls_key_file")
EXTRA = ("security_token", "topics", "namespace", "consumer_group", "tls", *EXTRA_TLS)
# Of a request of those that ask again and again.
_TIMEOUT_SECONDS = 5.0


def queue_name(queue: MessageQueue) -> str:
    """A queue of a topic, as events and errors of this package name it: `<broker>/<queue id>`."""
    return f"{queue.broker}/{queue.queue_id}"


@dataclass(frozen=True)
class Cluster:
    """A connection's fields without its secrets."""

    namesrv: list[str]
    topics: list[str]
    namespace: str | None
    consumer_group: str
    tls: Tls | None


class RocketMQHook(BaseHook):
    """Reads topics over RocketMQ's remoting protocol, by exact offsets.

    The connection's host is its nameservers (`host:port`, several with `;`), login the access key, password the
    secret key; the other fields are in `provider.yaml`.
    """

    conn_name_attr = "rocketmq_conn_id"
    default_conn_name = "rocketmq_default"
    conn_type = "rocketmq"
    hook_name = "RocketMQ"

    def __init__(self, rocketmq_conn_id: str = default_conn_name) -> None:
        """Open no connection yet."""
        super().__init__()
        self.rocketmq_conn_id = rocketmq_conn_id

    @cached_property
    def _connection(self) -> Connection:
        return self.get_connection(self.rocketmq_conn_id)

    def credentials(self) -> Credentials | None:
        """The connection's keys; None if it has none, as for a cluster without ACL.

        Raises:
            ValueError: one of the two keys is missing.
        """
        connection = self._connection
        if not connection.login and not connection.password:
            return None
        if not connection.login or not connection.password:
            raise ValueError(
                f"connection {self.rocketmq_conn_id}: login (access key) and password (secret key) go together"
            )
        token = connection.extra_dejson.get("security_token") or None
        return Credentials(connection.login, connection.password, token)

    def cluster(self) -> Cluster:
        """The connection's fields without its secrets; raises ValueError."""
        connection = self._connection
        return cluster(self.rocketmq_conn_id, connection.host, connection.port, connection.extra_dejson)

    def get_conn(self, consumer_group: str | None = None, **limits: Any) -> Client:
        """A client of the cluster, a context manager; it opens no connection yet.

        Args:
            consumer_group: the group in its pull requests; None for the connection's.
            **limits: as of `Client`: `timeout`, `attempts`, …

        Raises:
            ValueError: a field is invalid, or a TLS file cannot be read.
        """
        found = self.cluster()
        group = with_namespace(consumer_group, found.namespace) if consumer_group else found.consumer_group
        try:
            return Client(
                found.namesrv,
                self.rocketmq_conn_id,
                self.credentials(),
                found.tls,
                consumer_group=group,
                **limits,
            )
        except OSError as error:
            files = found.tls and (found.tls.ca_file, found.tls.cert_file, found.tls.key_file)
            names = ", ".join(filter(None, files or ())) or "the system's certificates"
            raise ValueError(
                f"connection {self.rocketmq_conn_id}: the TLS files ({names}) cannot be used: {error}"
            ) from None

    def unread(self, topic: str, consumer_group: str) -> Unread:
        """The offsets that the group has not committed, per queue; each queue is asked once. Nothing is committed.

        Args:
            topic: without the connection's namespace.
            consumer_group: without it, too. All messages of a group that has committed nothing are unread.

        Raises:
            ValueError: a field of the connection is invalid.
        """
        namespace = self.cluster().namespace
        group = with_namespace(consumer_group, namespace)
        with self.get_conn(timeout=_TIMEOUT_SECONDS, attempts=1) as client:
            topics = [with_namespace(topic, namespace)]
            return unread(client, topics, lambda queue: committed_offset(client, queue, group) or 0)

    def stored_at(self, topic: str, offsets: Mapping[str, int]) -> tuple[dict[str, int | None], list[str]]:
        """The store time, ms, of the message at an offset of each queue (`<broker>/<queue id>`); None if it has none there.

        Also returns why other queues cannot be read.

        Raises:
            RocketMQError: the route of the topic is unknown.
        """
        with self.get_conn(timeout=_TIMEOUT_SECONDS, attempts=1) as client:
            queues = client.queues(with_namespace(topic, self.cluster().namespace))
            wanted = {queue: offsets[name] for queue in queues if (name := queue_name(queue)) in offsets}
            found, problems = stored_at(client, wanted)
        return {queue_name(queue): at for queue, at in found.items()}, problems

    def consume(self, topic: str, consumer_group: str, max_messages: int | None = None) -> Iterator[Message]:
        """Yield messages that the group has not committed, and commit each queue up to what was yielded of it.

        A batch is committed when the caller asks for what comes after it: if the caller fails, its messages are unread, so
        they come again. Run one at a time per topic and group: nothing shares the queues out.

        Args:
            topic: without the connection's namespace.
            consumer_group: without it, too. Brokers create an unknown group, unless `autoCreateSubscriptionGroup` is off.
            max_messages: at most so many of each queue; None for all that it has now.

        Raises:
            RocketMQError: a queue cannot be read. What was committed stays so.
        """
        namespace = self.cluster().namespace
        group = with_namespace(consumer_group, namespace)
        with self.get_conn(consumer_group) as client:
            for queue in client.queues(with_namespace(topic, namespace)):
                offsets = client.bounds(queue).unread(committed_offset(client, queue, group) or 0)
                if not offsets:
                    continue
                end = offsets[:max_messages].stop
                for batch in client.read(queue, offsets.start, end):
                    yield from batch
                    commit_offset(client, queue, group, batch[-1].queue_offset + 1)

    def test_connection(self) -> tuple[bool, str]:
        """Read a message of each of the connection's topics, or list the brokers; return success, and the result."""
        try:
            found = self.cluster()
            with self.get_conn() as client:
                if not found.topics:
                    names = ", ".join(broker.name for broker in client.registered_brokers())
                    return bool(names), f"brokers: {names}" if names else "no broker is registered"
                return True, "; ".join(_summary(client, topic) for topic in found.topics)
        except (RocketMQError, ValueError) as error:
            return False, str(error)


def _summary(client: Client, topic: str) -> str:
    """Read the offsets of every queue of the topic, and one message if there is any."""
    bounds = {queue: client.bounds(queue) for queue in client.queues(topic)}
    with_messages = [queue for queue, found in bounds.items() if found.min_offset < found.max_offset]
    if with_messages:
        client.message_at(with_messages[0], bounds[with_messages[0]].min_offset)
    messages = sum(each.max_offset - each.min_offset for each in bounds.values())
    brokers = sorted({queue.broker for queue in bounds})
    return f"{topic}: {len(bounds)} queues on {', '.join(brokers)} hold {messages} messages"


def cluster(name: str, host: str | None, port: int | None, extra: Mapping[str, Any]) -> Cluster:
    """A connection's fields.

    Args:
        name: the connection's id.
        host: nameservers, several with `;`.
        port: of nameservers without one; None for 9876.
        extra: the fields of the form; an empty one counts as missing.

    Raises:
        ValueError: a field is invalid; the message names the connection and the field, and no secret.
    """
    given = {key: value for key, value in extra.items() if value not in (None, "")}
    if unknown := sorted(set(given) - set(EXTRA)):
        known = ", ".join(EXTRA)
        raise ValueError(f"connection {name}: extra has no field {', '.join(unknown)}: it takes {known}")
    namesrv = [
        nameserver(part.strip(), port or DEFAULT_PORT) for part in (host or "").split(";") if part.strip()
    ]
    if not namesrv:
        raise ValueError(f"connection {name}: host must name a nameserver, such as 10.0.0.5:9876")
    for address in namesrv:
        try:
            split_address(address)
        except ValueError as error:
            raise ValueError(f"connection {name}: host: {error}") from None
    for key in ("tls", "tls_verify"):
        if not isinstance(given.get(key, False), bool):
            raise ValueError(f"connection {name}: {key} must be true or false")
    tls = {key.removeprefix("tls_"): given[key] for key in EXTRA_TLS if key in given}
    if not given.get("tls") and any(key.endswith("_file") for key in tls):
        raise ValueError(f"connection {name}: {', '.join(f'tls_{key}' for key in tls)} need tls")
    namespace = given.get("namespace")
    topics = [each.strip() for each in str(given.get("topics", "")).split(",") if each.strip()]
    group = given.get("consumer_group")
    return Cluster(
        namesrv,
        [with_namespace(topic, namespace) for topic in topics],
        namespace,
        with_namespace(group, namespace) if group else TOOLS_CONSUMER,
        Tls(**tls) if given.get("tls") else None,
    )


def nameserver(address: str, port: int) -> str:
    """The address, with `port` if it has none."""
    try:
        split_address(address)
    except ValueError:
        return f"{address}:{port}"
    return address
