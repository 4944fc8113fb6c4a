"""A RocketMQ cluster as an Airflow connection of type `rocketmq` describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseHook
from pydantic import ValidationError

from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.connection import split_address
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.settings import DEFAULT_TRACE_TOPIC, Cluster, Extract

DEFAULT_PORT = 9876
EXTRA = ("security_token", "trace_topics", "namespace", "consumer_group", "tls")
EXTRA_TLS = ("tls_verify", "tls_ca_file", "tls_cert_file", "tls_key_file")


class RocketMQHook(BaseHook):
    """Reads a cluster with the project's own client.

    The connection's host is its nameservers (`host:port`, several with `;`), login the access key, password the
    secret key; the other fields are in `plugins/provider.yaml`.
    """

    conn_name_attr = "rocketmq_conn_id"
    default_conn_name = "rocketmq_default"
    conn_type = "rocketmq"
    hook_name = "RocketMQ"

    def __init__(self, rocketmq_conn_id: str = default_conn_name) -> None:
        """Open no connection yet."""
        super().__init__()
        self.rocketmq_conn_id = rocketmq_conn_id

    def credentials(self) -> Credentials | None:
        """The connection's keys; None if it has none, as for a cluster without ACL.

        Raises:
            ValueError: one of the two keys is missing.
        """
        connection = self.get_connection(self.rocketmq_conn_id)
        if not connection.login and not connection.password:
            return None
        if not connection.login or not connection.password:
            raise ValueError(
                f"connection {self.rocketmq_conn_id}: login (access key) and password (secret key) go together"
            )
        token = connection.extra_dejson.get("security_token") or None
        return Credentials(connection.login, connection.password, token)

    def cluster(self) -> Cluster:
        """The connection as settings of a cluster, without its secrets; raises ValueError."""
        connection = self.get_connection(self.rocketmq_conn_id)
        return cluster(self.rocketmq_conn_id, connection.host, connection.port, connection.extra_dejson)

    def get_conn(self) -> TopicSource:
        """A reader of the cluster's trace topics, a context manager; it opens no connection yet.

        Raises:
            ValueError: a field is invalid, or a TLS file cannot be read.
        """
        return TopicSource(self.cluster(), Extract(), self.credentials())

    def test_connection(self) -> tuple[bool, str]:
        """Read the first message of each trace topic; return whether that succeeded, and a summary or the error."""
        try:
            found = self.cluster()
            with self.get_conn() as source:
                return True, "; ".join(_summary(source, topic) for topic in found.topics)
        except (RocketMQError, ValueError) as error:
            return False, str(error)


def _summary(source: TopicSource, topic: str) -> str:
    """Read the offsets of every queue of the topic, and one message if there is any."""
    queues = source.queues(topic)
    bounds = {queue: source.bounds(queue) for queue in queues}
    with_messages = [queue for queue in queues if bounds[queue].min_offset < bounds[queue].max_offset]
    if with_messages:
        source.message_at(with_messages[0], bounds[with_messages[0]].min_offset)
    messages = sum(each.max_offset - each.min_offset for each in bounds.values())
    brokers = sorted({queue.broker for queue in queues})
    return f"{topic}: {len(queues)} queues on {', '.join(brokers)} hold {messages} messages"


def cluster(name: str, host: str | None, port: int | None, extra: Mapping[str, Any]) -> Cluster:
    """A connection's fields as settings of a cluster.

    Args:
        name: the connection's id, which becomes the cluster's name.
        host: nameservers, several with `;`.
        port: of nameservers without one; None for 9876.
        extra: the fields of the form; an empty one counts as missing.

    Raises:
        ValueError: a field is invalid; the message names the connection and the field, and no secret.
    """
    given = {key: value for key, value in extra.items() if value not in (None, "")}
    if unknown := sorted(set(given) - {*EXTRA, *EXTRA_TLS}):
        known = ", ".join((*EXTRA, *EXTRA_TLS))
        raise ValueError(f"connection {name}: extra has no field {', '.join(unknown)}: it takes {known}")
    if not host:
        raise ValueError(f"connection {name}: host must name a nameserver, such as 10.0.0.5:9876")
    tls = {key.removeprefix("tls_"): given[key] for key in EXTRA_TLS if key in given}
    if not given.get("tls") and any(key.endswith("_file") for key in tls):
        raise ValueError(f"connection {name}: {', '.join(f'tls_{key}' for key in tls)} need tls")
    try:
        return Cluster.model_validate(
            {
                "name": name,
                "namesrv": [
                    nameserver(part.strip(), port or DEFAULT_PORT) for part in host.split(";") if part.strip()
                ],
                "trace_topics": [
                    each.strip() for each in str(given.get("trace_topics", DEFAULT_TRACE_TOPIC)).split(",")
                ],
                "namespace": given.get("namespace"),
                "consumer_group": given.get("consumer_group"),
                "tls": tls if given.get("tls") else None,
            }
        )
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ValueError(f"connection {name}: {wrong}") from None


def nameserver(address: str, port: int) -> str:
    """The address, with `port` if it has none."""
    try:
        split_address(address)
    except ValueError:
        return f"{address}:{port}"
    return address
