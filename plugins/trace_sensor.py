"""Wait for new trace messages: a sensor that may defer, and its trigger.

    TraceMessagesSensor(task_id="new_messages", cluster="prod", deferrable=True)

They compare the brokers' offsets with the committed offsets of `lake.raw.trace_messages`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from plugins.rocketmq_hook import RocketMQHook
from spark_jobs.ingest.lag import unread
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.settings import Settings


def unread_offsets(cluster: str) -> dict[str, range]:
    """The offsets of unread messages per queue (`<cluster>/<topic>/<broker>/<id>`), without queues that have none.

    If the cluster has an `airflow_conn_id`, that connection has its credentials.

    Raises:
        RocketMQError: a queue could not be queried.
        ValueError: no such cluster is configured, a secret is missing, or the lake is not the one of the settings.
    """
    settings = Settings()
    found = settings.cluster(cluster)
    credentials = RocketMQHook(found.airflow_conn_id).credentials() if found.airflow_conn_id else None
    return {str(queue): offsets for queue, offsets in unread(settings, found, credentials).items()}


def unread_messages(cluster: str) -> dict[str, int]:
    """The number of unread messages per queue; errors as of `unread_offsets`."""
    return {queue: len(offsets) for queue, offsets in unread_offsets(cluster).items()}


class TraceMessagesTrigger(BaseTrigger):
    """Fires once, with `{"unread": {queue: messages}}`, or with `{"error": text}` if brokers cannot be queried.

    Attributes:
        cluster: name of a cluster in the settings, which the triggerer must have too.
        poke_interval: seconds between two queries.
    """

    def __init__(self, cluster: str, poke_interval: float = 60) -> None:
        super().__init__()
        self.cluster = cluster
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and its arguments."""
        return (
            "plugins.trace_sensor.TraceMessagesTrigger",
            {"cluster": self.cluster, "poke_interval": self.poke_interval},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Query until there are unread messages, in a thread, as the client blocks."""
        while True:
            try:
                found = await asyncio.to_thread(unread_messages, self.cluster)
            except (RocketMQError, ValueError) as error:
                yield TriggerEvent({"error": str(error)})
                return
            if found:
                yield TriggerEvent({"unread": found})
                return
            await asyncio.sleep(self.poke_interval)


class TraceMessagesSensor(BaseSensorOperator):
    """Succeeds when a queue of the cluster's trace topics has messages that no published extraction has read.

    Its XCom is the number of unread messages per queue. With `deferrable=True` it waits in the triggerer and occupies no worker.
    """

    template_fields: Sequence[str] = ("cluster",)

    def __init__(self, *, cluster: str, deferrable: bool = True, **kwargs: Any) -> None:
        """Query nothing yet.

        Args:
            cluster: name of a cluster in the settings.
            deferrable: wait in the triggerer.
            **kwargs: arguments of any sensor: `poke_interval`, `timeout`, …
        """
        super().__init__(**kwargs)
        self.cluster = cluster
        self.deferrable = deferrable

    def poke(self, context: Context) -> PokeReturnValue:
        """Query once; raises RocketMQError or ValueError."""
        found = unread_messages(self.cluster)
        return PokeReturnValue(is_done=bool(found), xcom_value=found)

    def execute(self, context: Context) -> Any:
        """Query once in the worker, then in the triggerer until there are unread messages."""
        if not self.deferrable:
            return super().execute(context)
        if found := unread_messages(self.cluster):
            return found
        return self.defer(
            trigger=TraceMessagesTrigger(self.cluster, self.poke_interval),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, int]:
        """The trigger's event as the task's result; raises AirflowException if the brokers could not be queried."""
        if "error" in event:
            raise AirflowException(event["error"])
        self.log.info("unread messages: %s", event["unread"])
        return event["unread"]
