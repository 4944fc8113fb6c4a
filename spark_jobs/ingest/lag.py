"""What the brokers have and `lake.raw.trace_messages` has not; read without Spark."""

from __future__ import annotations

from spark_jobs.ingest.brokers import TopicSource
from spark_jobs.lake.catalog import summary_with
from spark_jobs.lake.offsets import OFFSETS, Position, Positions, Queue, from_json
from spark_jobs.lake.tables import RAW
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.settings import Cluster, Settings


def unread(settings: Settings, cluster: Cluster, credentials: Credentials | None = None) -> dict[Queue, int]:
    """Messages per queue of the cluster that no published extraction has read; queues without any are left out.

    Args:
        settings: name the catalog.
        cluster: whose trace topics are looked at.
        credentials: None: those of `cluster.credentials_env`, if it names any.

    Raises:
        RocketMQError: a queue could not be asked. That is not the same as nothing new.
        ValueError: a secret or a TLS file is missing.
    """
    summary = summary_with(settings, RAW, OFFSETS)
    positions: Positions = from_json(summary[OFFSETS]) if summary else {}
    with TopicSource(cluster, settings.extract, credentials) as source:
        bounds = {queue: source.bounds(queue) for topic in cluster.topics for queue in source.queues(topic)}
    return {
        queue: count
        for queue, found in bounds.items()
        if (count := behind(found, positions.get(queue, Position(next=0))))
    }


def behind(bounds: Bounds, position: Position) -> int:
    """Messages of a queue behind the position.

    A queue that ends before the position was made anew (a slave may just lag): all of it counts, so that an
    extraction looks at it, which says what to do.
    """
    start = position.next
    if bounds.max_offset < start and bounds.from_master:
        start = 0
    return max(0, bounds.max_offset - max(start, bounds.min_offset))
