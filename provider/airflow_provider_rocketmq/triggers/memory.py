"""Where a trigger remembers what it has announced: the state store of its asset, which all triggerers share."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

from airflow_provider_rocketmq.triggers.announced import Announced

if TYPE_CHECKING:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

# Two triggerers that run the trigger at the same time write within this, and the later one is right.
SETTLE_SECONDS = 1.0
# Airflow stores an event within a second or two.
STORED_SECONDS = 5.0
# An event that is not confirmed for so long was not stored: its triggerer was killed.
CLAIM_SECONDS = 60.0


class Memory:
    """Claims an event before it is made, and confirms it when Airflow has stored it.

    One of two triggerers that claim the same event at once gets it. A triggerer that is killed between claim and confirmation
    leaves the event to the next one, which makes it (again, if Airflow had stored it).

    Without a store, as for a trigger that is not an asset's, the memory is that of this object.

    Args:
        store: the asset's; it keeps values until the asset is deleted.
        key: of the trigger.
    """

    def __init__(self, store: AssetStateStoreAccessors | None, key: str) -> None:
        self._store, self._key = store, key
        self._token = uuid.uuid4().hex  # of this object's claims
        self._value: dict[str, Any] | None = None

    async def load(self) -> Announced:
        """What has been announced by any triggerer."""
        self._value = await self._read()
        if self._value is None:
            return Announced()
        is_lost = (
            not self._value["stored"]
            and self._value["by"] != self._token
            and time.time() - self._value["now"]["at"] > CLAIM_SECONDS
        )
        return Announced.from_json(self._value["before" if is_lost else "now"])

    async def claim(self, before: Announced, now: Announced) -> bool:
        """Whether the event is this object's to make; False if another one has claimed since `load`."""
        if await self._read() != self._value:
            return False
        claimed = {
            "by": self._token,
            "stored": False,
            "before": before.to_json(),
            "now": now.to_json(),
        }
        await self._write(claimed)
        if self._store is not None:
            await asyncio.sleep(SETTLE_SECONDS)
        return await self._read() == claimed

    async def confirm(self) -> None:
        """Airflow has stored the event that was claimed last."""
        value = await self._read()
        if value is not None and value["by"] == self._token and not value["stored"]:
            await self._write({**value, "stored": True, "before": Announced().to_json()})

    async def _read(self) -> dict[str, Any] | None:
        if self._store is None:
            return self._value
        return await self._store.aget(self._key)  # type: ignore[return-value]

    async def _write(self, value: dict[str, Any]) -> None:
        self._value = value
        if self._store is not None:
            await self._store.aset(self._key, value)
