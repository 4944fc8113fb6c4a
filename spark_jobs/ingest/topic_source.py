"""The brokers of one cluster, through the client of its settings, with queues named as in the tables."""

from __future__ import annotations

import threading
from typing import Self

from spark_jobs.ingest.source_options import datasource_options
from spark_jobs.lake.offsets import Queue
from spark_jobs.rocketmq import route
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.options import Options, Reader
from spark_jobs.settings import Cluster, Extract


class TopicSource:
    """Queues, bounds and single messages of one cluster's trace topics. A context manager, for several threads.

    Every call raises `RocketMQError` if the broker cannot be reached or rejects the request.
    """

    def __init__(self, cluster: Cluster, extract: Extract, credentials: Credentials | None = None):
        """Open no connection; without `credentials` those of `cluster.credentials_env` are used.

        Raises:
            ValueError: a secret or a TLS file is missing.
        """
        self._cluster = cluster.name
        topic = cluster.topics[0]  # the options require one; the client reads any
        self._options = Options.parse({**datasource_options(cluster, extract), "topic": topic})
        self._credentials = credentials
        self._routes: dict[Queue, route.MessageQueue] = {}
        self._of_thread, self._clients = threading.local(), [self._options.open(credentials)]
        self._of_thread.client = self._clients[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    @property
    def _client(self) -> Reader:
        """The client of this thread."""
        if not hasattr(self._of_thread, "client"):
            self._of_thread.client = self._options.open(self._credentials)
            self._clients.append(self._of_thread.client)
        client: Reader = self._of_thread.client
        return client

    def queues(self, trace_topic: str) -> list[Queue]:
        """The topic's queues, from its route."""
        found = []
        for each in self._client.queues(trace_topic):
            queue = Queue(self._cluster, trace_topic, each.broker, each.queue_id)
            self._routes[queue] = each
            found.append(queue)
        return found

    def bounds(self, queue: Queue) -> Bounds:
        """The bounds on the master or, if it is down, on a slave."""
        return self._client.bounds(self._routes[queue])

    def message_at(self, queue: Queue, offset: int) -> Message | None:
        """The message at the offset; None if the broker has none there."""
        return self._client.message_at(self._routes[queue], offset)

    def offset_at(self, queue: Queue, store_time_ms: int) -> int:
        """The first offset stored at or after a time, ms; the max offset if there is none."""
        return self._client.offset_at(self._routes[queue], store_time_ms)
