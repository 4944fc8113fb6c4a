"""RocketMQ as a message queue of `common.messaging`: `MessageQueueTrigger(scheme="rocketmq", …)`."""

from __future__ import annotations

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
from airflow.triggers.base import BaseEventTrigger

from airflow_provider_rocketmq.triggers.rocketmq import RocketMQTrigger


class RocketMQMessageQueueProvider(BaseMessageQueueProvider):
    """The arguments of `MessageQueueTrigger` are those of `RocketMQTrigger`."""

    scheme = "rocketmq"

    def trigger_class(self) -> type[BaseEventTrigger]:
        """The trigger for the scheme."""
        return RocketMQTrigger
