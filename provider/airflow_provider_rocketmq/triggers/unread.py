"""Fire when there are unread messages: the trigger that those of this package, and of others, derive from.

Airflow imports this with each DAG file that has such a trigger: the client is imported by the triggerer.
"""

from __future__ import annotations

import abc
import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_rocketmq.triggers import memory
from airflow_provider_rocketmq.triggers.announced import Announced, Offsets
from airflow_provider_rocketmq.triggers.memory import Memory


class BrokersUnknownError(RuntimeError):
    """Queues could not be asked, and no other one has unread messages: that does not mean that there are none."""


@dataclass(frozen=True)
class Asked:
    """The queues that were asked, by name.

    Attributes:
        unread: per queue the offsets from the committed one to the end; an empty range if nothing is unread.
        from_slaves: queues whose end a slave said, which may be behind.
        problems: why other queues could not be asked.
    """

    unread: Offsets = field(default_factory=dict)
    from_slaves: Collection[str] = ()
    problems: Collection[str] = ()

    def counts(self) -> dict[str, int]:
        """The number of unread messages per queue that has any."""
        return {queue: len(offsets) for queue, offsets in self.unread.items() if offsets}


class UnreadMessagesTrigger(BaseEventTrigger):
    """Fires when there are enough unread messages, or the oldest is old enough; it reads committed offsets and commits none.

    An event *announces* the messages that were unread then. Each message is announced once. While announced messages are not
    committed, a run is taken to be at work, and later messages wait for its commit, for at most `hold` seconds. So the
    trigger does not fire again while a run works or a lag stands. What a run has left after that, and the messages after a
    committed offset that was set back, are announced again. What was announced is in the state store of the trigger's
    asset, for all triggerers.

    What cannot be asked is a warning in the triggerer's log, once for each reason, and the trigger goes on.

    Attributes:
        min_messages: so many messages that no event has announced are enough.
        max_age: seconds since the broker stored the oldest of them, after which fewer are enough; None: never.
        poll_interval: seconds between two queries.
        hold: seconds; longer than the runs that the trigger starts.
        once: for a task that waits: fire for all unread messages, or with `{"error": text}` if it is unknown whether there are
            any, and end.
    """

    def __init__(
        self,
        *,
        min_messages: int = 1,
        max_age: float | None = None,
        poll_interval: float = 10,
        hold: float = 600,
        once: bool = False,
    ) -> None:
        super().__init__()
        if min_messages < 1 or poll_interval <= 0:
            raise ValueError("min_messages must be at least 1, and poll_interval more than 0 seconds")
        self.min_messages = min_messages
        self.max_age = max_age
        self.poll_interval = poll_interval
        self.hold = hold
        self.once = once

    @property
    @abc.abstractmethod
    def place(self) -> dict[str, str]:
        """Whose messages these are: in the event, and, as JSON, the trigger's key in the state store."""

    @abc.abstractmethod
    def ask(self) -> Asked:
        """Ask every queue once. Blocks."""

    @abc.abstractmethod
    def stored_at(self, offsets: Mapping[str, int]) -> tuple[dict[str, int | None], list[str]]:
        """The time, ms, at which the broker stored the message at an offset of each queue; None if unknown. Blocks.

        Also returns why other queues cannot be read.
        """

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and its arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                **self.arguments(),
                "min_messages": self.min_messages,
                "max_age": self.max_age,
                "poll_interval": self.poll_interval,
                "hold": self.hold,
                "once": self.once,
            },
        )

    def arguments(self) -> dict[str, Any]:
        """The arguments that the class adds."""
        return {**self.place}

    def found(self) -> dict[str, int]:
        """The number of unread messages per queue, if they are due; else empty. Blocks.

        Raises:
            BrokersUnknownError: they are not, and queues could not be asked.
        """
        asked = self.ask()
        waiting = {queue: offsets for queue, offsets in asked.unread.items() if offsets}
        if self._are_enough(waiting) or self._are_old(waiting, {}):
            return asked.counts()
        if asked.problems:
            raise BrokersUnknownError("; ".join(asked.problems))
        return {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask again and again, in a thread, as the client blocks."""
        if self.once:
            yield TriggerEvent(await self._first())
            return
        remembered = await self._memory()
        stored: dict[tuple[str, int], int | None] = {}  # of the oldest messages: each is asked for once
        warned = ""
        while True:
            is_due, problems = False, []
            try:
                asked = await asyncio.to_thread(self.ask)
                problems = list(asked.problems)
                is_due = await self._claims(asked, remembered, stored)
            except Exception as error:  # Airflow would fail the trigger, and start it again at once
                problems.append(f"{type(error).__name__}: {error}")
            if (text := "; ".join(problems)) != warned:
                warned = text
                if text:
                    self.log.warning("messages of %s may not be noticed: %s", self._name, text)
            if is_due:
                yield TriggerEvent({**self.place, "unread": asked.counts()})
                await self._confirm(remembered)
            await asyncio.sleep(self.poll_interval)

    async def _memory(self) -> Memory:
        key = "/".join(["rocketmq", *self.place.values()])
        try:
            if self.asset_state_store is not None:
                await self.asset_state_store.aget(key)
        except ValueError as error:  # it is not of one asset
            self.log.warning("what is announced of %s is lost with this triggerer: %s", self._name, error)
            return Memory(None, key)
        except Exception:
            self.log.debug("the state of the asset cannot be read yet", exc_info=True)  # each query says so
        return Memory(self.asset_state_store, key)

    async def _first(self) -> dict[str, Any]:
        while True:
            try:
                if found := await asyncio.to_thread(self.found):
                    return {**self.place, "unread": found}
            except Exception as error:
                return {"error": str(error)}
            await asyncio.sleep(self.poll_interval)

    async def _claims(
        self, asked: Asked, remembered: Memory, stored: dict[tuple[str, int], int | None]
    ) -> bool:
        """Whether an event is due, and this triggerer's to make."""
        if not any(asked.unread.values()):
            return False
        announced: Announced = await remembered.load()
        now = time.time()
        fresh = announced.fresh(asked.unread, now, self.hold, asked.from_slaves)
        if not fresh or announced.is_at_work(asked.unread, now, self.hold, asked.from_slaves):
            return False
        if not self._are_enough(fresh) and not await asyncio.to_thread(self._are_old, fresh, stored):
            return False
        after = announced.after(asked.unread, fresh, time.time(), asked.from_slaves)
        return await remembered.claim(announced, after)

    async def _confirm(self, remembered: Memory) -> None:
        await asyncio.sleep(memory.STORED_SECONDS)
        try:
            await remembered.confirm()
        except Exception as error:
            self.log.warning(
                "the event of %s may be made again after a restart: %s: %s",
                self._name,
                type(error).__name__,
                error,
            )

    def _are_enough(self, fresh: Offsets) -> bool:
        return sum(map(len, fresh.values())) >= self.min_messages

    def _are_old(self, fresh: Offsets, stored: dict[tuple[str, int], int | None]) -> bool:
        """Whether the oldest message is `max_age` old. A message whose time the broker does not say is taken to be.

        Raises:
            BrokersUnknownError: of the queues that can be read, none has one.
        """
        if self.max_age is None or not fresh:
            return False
        oldest = {queue: offsets.start for queue, offsets in fresh.items()}
        for gone in stored.keys() - oldest.items():
            del stored[gone]
        problems: list[str] = []
        if new := dict(oldest.items() - stored.keys()):
            found, problems = self.stored_at(new)
            stored.update({(queue, new[queue]): at for queue, at in found.items()})
        before = (time.time() - self.max_age) * 1000
        if any((at := stored[each]) is None or at <= before for each in oldest.items() if each in stored):
            return True
        if problems:
            raise BrokersUnknownError("; ".join(problems))
        return False

    @property
    def _name(self) -> str:
        return ", ".join(f"{key} {value}" for key, value in self.place.items())
