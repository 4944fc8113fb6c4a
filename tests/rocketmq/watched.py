"""What a trigger watches: topics on a real broker, by committed offsets of a group or of the lake; and a triggerer around it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow as pa

from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import OFFSETS, Position, Queue, to_json
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.group_offsets import commit_offset
from spark_jobs.settings import Settings
from tests.rocketmq.sending import send

# On a busy machine.
SECONDS = 60.0


@dataclass
class Watched:
    """A topic of its own with two queues."""

    broker: str
    namesrv: str
    topic: str

    def send(self, count: int = 1, queue_id: int = 0) -> None:
        send(self.broker, self.topic, count, queue_id, queues=2)

    def ends(self) -> dict[int, int]:
        with Client([self.namesrv]) as client:
            return {queue.queue_id: client.max_offset(queue) for queue in client.queues(self.topic)}

    def name(self, queue_id: int) -> str:
        """A queue, as events name it."""
        raise NotImplementedError

    def trigger(self, **when: Any) -> Any:
        raise NotImplementedError

    def commit(self, offsets: dict[int, int] | None = None) -> None:
        """Commit these offsets of queues, or all that there is."""
        raise NotImplementedError


@dataclass
class ByGroup(Watched):
    """By the committed offsets of a consumer group."""

    def name(self, queue_id: int) -> str:
        return f"broker-a/{queue_id}"

    def trigger(self, **when: Any) -> Any:
        from airflow_provider_rocketmq.triggers.rocketmq import RocketMQTrigger

        return RocketMQTrigger(self.topic, "watching", "sandbox", **when)

    def commit(self, offsets: dict[int, int] | None = None) -> None:
        with Client([self.namesrv], consumer_group="watching") as client:
            for queue in client.queues(self.topic):
                offset = (offsets or self.ends()).get(queue.queue_id)
                if offset is not None:
                    client.pull(queue, 0, 1)  # the broker creates the group
                    commit_offset(client, queue, "watching", offset)


@dataclass
class ByLake(Watched):
    """By the committed offsets of `lake.raw.trace_messages`."""

    positions: dict[Queue, Position] = field(default_factory=dict)

    def name(self, queue_id: int) -> str:
        return f"c/{self.topic}/broker-a/{queue_id}"

    def trigger(self, **when: Any) -> Any:
        from plugins.trace_watcher import NewTraceMessagesTrigger

        return NewTraceMessagesTrigger("c", **when)

    def commit(self, offsets: dict[int, int] | None = None) -> None:
        rows = pa.table({"queue_offset": [0]})
        catalog = lake(Settings())
        catalog.create_namespace_if_not_exists("raw")
        table = catalog.create_table_if_not_exists("raw.trace_messages", rows.schema)
        for queue_id, offset in (offsets or self.ends()).items():
            self.positions[Queue("c", self.topic, "broker-a", queue_id)] = Position(next=offset)
        table.append(rows, snapshot_properties={OFFSETS: to_json(self.positions)})


class Comms:
    """The requests of a trigger for its asset's state, to Airflow's execution API in this process, as a triggerer sends them."""

    def __init__(self) -> None:
        from airflow.jobs.triggerer_job_runner import in_process_api_server
        from airflow.sdk.api.client import Client as ApiClient

        transport = in_process_api_server().transport
        self._client = ApiClient(base_url=None, token="", dry_run=True, transport=transport)
        self._client.base_url = "http://in-process.invalid./"

    async def asend(self, message: Any) -> Any:
        return await asyncio.to_thread(self.send, message)

    def send(self, message: Any) -> Any:
        from airflow.sdk.execution_time import request_handlers as handlers
        from airflow.sdk.execution_time.comms import GetAssetStateStoreByName

        if isinstance(message, GetAssetStateStoreByName):
            return handlers.handle_get_asset_state_store_by_name(self._client, message)[0]
        return handlers.handle_set_asset_state_store_by_name(self._client, message)[0]


class Triggerer:
    """Runs a trigger, made from what it serializes to, until the test is done with it."""

    def __init__(self, trigger: Any, *assets: str) -> None:
        from airflow.sdk import Asset
        from airflow.sdk.execution_time.context import AssetStateStoreAccessors

        path, arguments = trigger.serialize()
        module, name = path.rsplit(".", 1)
        self.trigger = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))
        inlets = [Asset(name=asset) for asset in assets]
        self.trigger.asset_state_store = AssetStateStoreAccessors(inlets=inlets)
        self.events: list[dict[str, Any]] = []
        self.queries = 0
        self._ask, self.trigger.ask = self.trigger.ask, self._counted
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        async for event in self.trigger.run():
            self.events.append(event.payload)

    def _counted(self) -> Any:
        try:
            return self._ask()
        finally:
            self.queries += 1

    async def until(self, count: int) -> None:
        """Wait until it has fired so often in all, and for several queries more, after which it does not fire."""
        await self._wait(lambda: len(self.events) >= count)
        await self.quiet()
        assert len(self.events) == count, self.events

    async def quiet(self) -> None:
        """Wait for two queries, and for what follows from them."""
        queries = self.queries
        await self._wait(lambda: self.queries >= queries + 3)

    async def _wait(self, is_over: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not is_over():
            assert not self._task.done(), self._task
            assert time.monotonic() < end, self.events
            await asyncio.sleep(0.05)

    def unread(self) -> list[dict[str, int]]:
        return [event["unread"] for event in self.events]

    async def kill(self) -> None:
        """End it where it is."""
        assert not self._task.done(), self._task
        self._task.cancel()
        await asyncio.wait([self._task])


@contextmanager
def elsewhere(**variables: str) -> Iterator[None]:
    """The environment with other values."""
    before = {name: os.environ[name] for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.update(before)
