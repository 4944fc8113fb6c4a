"""The trigger for new messages of a topic, by the committed offsets of a consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_rocketmq.triggers.unread import Asked, UnreadMessagesTrigger


class RocketMQTrigger(UnreadMessagesTrigger):
    """Fires with `{"rocketmq_conn_id", "topic", "consumer_group", "unread": {"<broker>/<queue id>": messages}}`.

    Unread is what the group has not committed; of a group that has committed nothing, every message that the brokers have.

    Attributes:
        topic: without the connection's namespace.
        consumer_group: of clustering consumers; broadcasting ones commit nothing at the brokers.
        rocketmq_conn_id: the connection, which the triggerer reads at each query.

    Further arguments: as `UnreadMessagesTrigger`.
    """

    def __init__(
        self,
        topic: str,
        consumer_group: str,
        rocketmq_conn_id: str = "rocketmq_default",
        **when: Any,
    ) -> None:
        super().__init__(**when)
        self.topic = topic
        self.consumer_group = consumer_group
        self.rocketmq_conn_id = rocketmq_conn_id

    @property
    def place(self) -> dict[str, str]:
        """Connection, topic and group."""
        return {
            "rocketmq_conn_id": self.rocketmq_conn_id,
            "topic": self.topic,
            "consumer_group": self.consumer_group,
        }

    def ask(self) -> Asked:
        """Ask the topic's brokers."""
        from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook, queue_name

        found = RocketMQHook(self.rocketmq_conn_id).unread(self.topic, self.consumer_group)
        return Asked(
            {queue_name(queue): offsets for queue, offsets in found.offsets.items()},
            {queue_name(queue) for queue in found.from_slaves},
            found.problems,
        )

    def stored_at(self, offsets: Mapping[str, int]) -> tuple[dict[str, int | None], list[str]]:
        """Read the message at each offset."""
        from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook

        return RocketMQHook(self.rocketmq_conn_id).stored_at(self.topic, offsets)
