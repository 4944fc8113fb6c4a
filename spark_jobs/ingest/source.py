"""The brokers as the plan asks them: over the remoting client, by the names that the tables use."""

from __future__ import annotations

from typing import Self

from spark_jobs.ingest.positions import Queue
from spark_jobs.rocketmq import route
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.message import Message
from spark_jobs.settings import Cluster


class TopicSource:
    """Queues, bounds and single messages of one cluster's trace topics. A context manager.

    Every call raises `RocketMQError` where the broker is away or refuses.
    """

    def __init__(self, cluster: Cluster):
        prefix = cluster.credentials_env
        self._cluster = cluster.name
        self._client = Client(
            cluster.namesrv, cluster.name, credentials=Credentials.from_env(prefix) if prefix else None
        )
        self._routes: dict[Queue, route.Queue] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def queues(self, trace_topic: str) -> list[Queue]:
        """The topic's queues, from its route."""
        found = []
        for each in self._client.queues(trace_topic):
            queue = Queue(self._cluster, trace_topic, each.broker, each.queue_id)
            self._routes[queue] = each
            found.append(queue)
        return found

    def bounds(self, queue: Queue) -> tuple[int, int]:
        """The smallest offset that the broker still has, and the one after the largest."""
        each = self._routes[queue]
        return self._client.min_offset(each), self._client.max_offset(each)

    def message_at(self, queue: Queue, offset: int) -> Message | None:
        """The message at the offset; None where the broker has none there."""
        return self._client.message_at(self._routes[queue], offset)
