"""Consumer lag of the ingest: messages on the brokers that `lake.raw.trace_messages` does not have; without Spark."""

from __future__ import annotations

from spark_jobs.ingest.source_options import datasource_options
from spark_jobs.lake.offsets import Position, Queue, committed_positions
from spark_jobs.lake.tables import RAW
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.options import Options, Reader
from spark_jobs.rocketmq.route import MessageQueue
from spark_jobs.rocketmq.unread import Unread, unread
from spark_jobs.settings import Cluster, Settings

# Each queue is asked once: who waits for messages asks again.
_TIMEOUT_MS = 5_000


def client(settings: Settings, cluster: Cluster, credentials: Credentials | None = None) -> Reader:
    """A client of the cluster that retries nothing; without `credentials` those of `cluster.credentials_env` are used.

    Raises:
        ValueError: a secret or a TLS file is missing.
    """
    given = datasource_options(cluster, settings.extract)
    given |= {"topic": cluster.topics[0], "timeoutMs": str(_TIMEOUT_MS)}
    return Options.parse(given).open(credentials, attempts=1)


def unread_traces(settings: Settings, cluster: Cluster, brokers: Reader) -> Unread:
    """The offsets of unread messages per queue of the cluster's trace topics, after the committed offsets of raw.

    Raises:
        WrongLakeError: the lake is not the one of the settings.
    """
    positions = committed_positions(settings, RAW)

    def committed(queue: MessageQueue) -> int:
        return positions.get(name(cluster, queue), Position(next=0)).next

    return unread(brokers, cluster.topics, committed)


def name(cluster: Cluster, queue: MessageQueue) -> Queue:
    """A queue as the tables name it."""
    return Queue(cluster.name, queue.topic, queue.broker, queue.queue_id)
