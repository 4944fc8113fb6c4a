"""Wait for unread trace messages, by the committed offsets of `lake.raw.trace_messages`.

TraceMessagesSensor(task_id="new_messages", cluster="prod")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_rocketmq.sensors.unread import UnreadMessagesSensor
from plugins.trace_watcher import NewTraceMessagesTrigger


class TraceMessagesSensor(UnreadMessagesSensor):
    """Succeeds when a queue of the cluster's trace topics has messages that no published extraction has read."""

    template_fields: Sequence[str] = ("cluster",)

    def __init__(self, *, cluster: str, **kwargs: Any) -> None:
        """Query nothing yet.

        Args:
            cluster: name of a cluster in the settings.
            **kwargs: as `UnreadMessagesSensor`.
        """
        super().__init__(**kwargs)
        self.cluster = cluster

    def trigger(self, **when: Any) -> NewTraceMessagesTrigger:
        """The trigger for the cluster."""
        return NewTraceMessagesTrigger(self.cluster, **when)
