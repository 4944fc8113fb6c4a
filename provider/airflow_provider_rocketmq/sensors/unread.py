"""The sensor that those of this package, and of others, derive from."""

from __future__ import annotations

import abc
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowException

from airflow_provider_rocketmq.triggers.unread import UnreadMessagesTrigger


class UnreadMessagesSensor(BaseSensorOperator):
    """Succeeds when there are unread messages; its XCom is their number per queue.

    It fails if queues cannot be asked and the others have none. With `deferrable` it waits in the triggerer, and occupies no
    worker.
    """

    def __init__(
        self,
        *,
        min_messages: int = 1,
        max_age: float | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        """Query nothing yet.

        Args:
            min_messages: so many unread messages are enough.
            max_age: seconds since the broker stored the oldest one, after which fewer are enough; None: never.
            deferrable: wait in the triggerer.
            **kwargs: arguments of any sensor: `poke_interval`, `timeout`, …
        """
        super().__init__(**kwargs)
        self.min_messages = min_messages
        self.max_age = max_age
        self.deferrable = deferrable

    @abc.abstractmethod
    def trigger(self, **when: Any) -> UnreadMessagesTrigger:
        """The trigger of what is waited for, with these arguments."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Query once; raises RuntimeError or ValueError."""
        found = self._trigger().found()
        return PokeReturnValue(is_done=bool(found), xcom_value=found)

    def execute(self, context: Context) -> Any:
        """Query once in the worker, then in the triggerer until there are unread messages."""
        if not self.deferrable:
            return super().execute(context)
        trigger = self._trigger()
        if found := trigger.found():
            return found
        return self.defer(
            trigger=trigger,
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, int]:
        """The trigger's event as the task's result; raises AirflowException if queues could not be asked."""
        if "error" in event:
            raise AirflowException(event["error"])
        self.log.info("unread messages: %s", event["unread"])
        return event["unread"]

    def _trigger(self) -> UnreadMessagesTrigger:
        return self.trigger(
            min_messages=self.min_messages,
            max_age=self.max_age,
            poll_interval=self.poke_interval,
            once=True,
        )
