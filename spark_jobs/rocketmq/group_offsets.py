"""The committed offsets of a consumer group, which are on the brokers (clustering, not broadcasting)."""

from __future__ import annotations

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.cluster_connections import ClusterConnections
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.errors import QueueLocation
from spark_jobs.rocketmq.route import MessageQueue


def committed_offset(client: ClusterConnections, queue: MessageQueue, group: str) -> int | None:
    """The offset that the group reads next; None if it has committed none.

    A slave has a copy, some seconds old. A broker before 5.0 says 0 for a new group if the queue still has its first message.

    Raises:
        RocketMQError: as `Client.pull`.
    """

    def request(connection: Connection, location: QueueLocation) -> int | None:
        fields = requests.committed_offset(queue.topic, queue.queue_id, group)
        frame = connection.call(requests.QUERY_CONSUMER_OFFSET, fields)
        if frame.code == requests.QUERY_NOT_FOUND:
            return None
        if frame.code != requests.SUCCESS:
            raise requests.failure(frame, location, f"request of the committed offset of group {group}")
        return requests.number(frame, "offset", location)

    return client.call_broker(queue, request)[0]


def commit_offset(client: ClusterConnections, queue: MessageQueue, group: str, offset: int) -> None:
    """Commit the offset that the group reads next, on the master: an offset on a slave would be overwritten.

    A broker with `autoCreateSubscriptionGroup` creates the group at its first pull, not here.

    Raises:
        UnreachableError: the queue's master is down.
        ConsumerGroupNotFoundError: the broker does not know the group.
        RocketMQError: as `Client.pull`.
    """

    def request(connection: Connection, location: QueueLocation) -> None:
        fields = requests.commit_offset(queue.topic, queue.queue_id, group, offset)
        frame = connection.call(requests.UPDATE_CONSUMER_OFFSET, fields)
        if frame.code != requests.SUCCESS:
            raise requests.failure(frame, location, f"commit of offset {offset} of group {group}")

    client.call_master(queue, request)
