"""Wait for unread messages of a topic.

RocketMQSensor(task_id="orders", topic="orders", consumer_group="billing")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_rocketmq.sensors.unread import UnreadMessagesSensor
from airflow_provider_rocketmq.triggers.rocketmq import RocketMQTrigger


class RocketMQSensor(UnreadMessagesSensor):
    """Succeeds when a queue of the topic has messages that the consumer group has not committed."""

    template_fields: Sequence[str] = ("topic", "consumer_group", "rocketmq_conn_id")

    def __init__(
        self,
        *,
        topic: str,
        consumer_group: str,
        rocketmq_conn_id: str = "rocketmq_default",
        **kwargs: Any,
    ) -> None:
        """Query nothing yet.

        Args:
            topic: without the connection's namespace.
            consumer_group: whose committed offsets count.
            rocketmq_conn_id: the connection.
            **kwargs: as `UnreadMessagesSensor`.
        """
        super().__init__(**kwargs)
        self.topic = topic
        self.consumer_group = consumer_group
        self.rocketmq_conn_id = rocketmq_conn_id

    def trigger(self, **when: Any) -> RocketMQTrigger:
        """The trigger for the topic."""
        return RocketMQTrigger(self.topic, self.consumer_group, self.rocketmq_conn_id, **when)
