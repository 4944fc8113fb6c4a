"""Consumer lag of the ingest: messages on the brokers that `lake.raw.trace_messages` does not have; without Spark."""

from __future__ import annotations

from spark_jobs.ingest.topic_source import TopicSource
from spark_jobs.lake.offsets import Position, Queue, committed_positions
from spark_jobs.lake.tables import RAW
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.settings import Cluster, Settings


def unread(
    settings: Settings, cluster: Cluster, credentials: Credentials | None = None
) -> dict[Queue, range]:
    """The offsets of unread messages per queue of the cluster; queues without any are left out.

    Args:
        settings: of the catalog.
        cluster: the cluster with its trace topics.
        credentials: None for those of `cluster.credentials_env`, if set.

    Raises:
        RocketMQError: a queue's broker cannot be reached. That does not mean that there are no new messages.
        ValueError: a secret or a TLS file is missing.
    """
    positions = committed_positions(settings, RAW)
    with TopicSource(cluster, settings.extract, credentials) as source:
        bounds = {queue: source.bounds(queue) for topic in cluster.topics for queue in source.queues(topic)}
    return {
        queue: offsets
        for queue, found in bounds.items()
        if (offsets := behind(found, positions.get(queue, Position(next=0))))
    }


def behind(bounds: Bounds, position: Position) -> range:
    """The offsets of the messages of a queue after the position.

    A queue whose max offset (of its master) is before the position was recreated: all its messages count, so that an
    extraction is started, whose error message has the next step.
    """
    start = position.next
    if bounds.max_offset < start and bounds.from_master:
        start = 0
    return range(max(start, bounds.min_offset), bounds.max_offset)
