"""Start a DAG when brokers have new trace messages: the trigger of an AssetWatcher.

    Asset("rocketmq.trace_messages", watchers=[AssetWatcher(name="prod", trigger=NewTraceMessagesTrigger("prod", 10, 60))])

The processor of DAG files and each task import this with the DAG: the client and pyiceberg are imported by the triggerer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent


class NewTraceMessagesTrigger(BaseEventTrigger):
    """Fires with `{"cluster": name, "unread": {queue: messages}}` when there are messages that no published extraction has read.

    It does not fire again for the same messages: those of a queue that cannot be read are left to the DAG's timer. It never ends.
    Brokers that cannot be queried are a warning in the triggerer's log, once for each reason: the DAG's timer reports them.

    Attributes:
        cluster: name of a cluster in the settings, which the triggerer must have too.
        poll_seconds: between two queries.
        pause_seconds: from an event to the next query.
    """

    def __init__(self, cluster: str, poll_seconds: float, pause_seconds: float) -> None:
        super().__init__()
        self.cluster = cluster
        self.poll_seconds = poll_seconds
        self.pause_seconds = pause_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and its arguments."""
        return (
            "plugins.trace_watcher.NewTraceMessagesTrigger",
            {
                "cluster": self.cluster,
                "poll_seconds": self.poll_seconds,
                "pause_seconds": self.pause_seconds,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Query again and again, in a thread, as the client blocks."""
        from plugins.trace_sensor import unread_offsets

        announced: dict[str, range] = {}
        problem = ""
        while True:
            try:
                found = await asyncio.to_thread(unread_offsets, self.cluster)
                problem = ""
            except (
                Exception
            ) as error:  # brokers, a secret, the catalog: Airflow would start the trigger again at once
                if str(error) != problem:
                    problem = str(error)
                    self.log.warning("new messages of cluster %s are not noticed: %s", self.cluster, problem)
                found = {}
            if found and found != announced:
                announced = found
                counts = {queue: len(offsets) for queue, offsets in found.items()}
                yield TriggerEvent({"cluster": self.cluster, "unread": counts})
                await asyncio.sleep(self.pause_seconds)
            else:
                await asyncio.sleep(self.poll_seconds)
