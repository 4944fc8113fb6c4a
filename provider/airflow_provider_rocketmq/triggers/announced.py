"""What events have announced: the rule by which a trigger fires, without I/O and without a clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Offsets = Mapping[str, range]


@dataclass(frozen=True)
class Announced:
    """The messages that events have announced and that are not committed yet, and whether a run is at work on them.

    Attributes:
        offsets: per queue the announced messages: from the committed offset at that time to the queue's end.
        awaited: the queues whose commits the next event waits for.
        at: time of the last event, seconds since 1970.
    """

    offsets: Offsets = field(default_factory=dict)
    awaited: Collection[str] = frozenset()
    at: float = 0.0

    def fresh(
        self, unread: Offsets, now: float, hold: float, from_slaves: Collection[str] = ()
    ) -> dict[str, range]:
        """The unread messages that no event has announced, and those that a run has left.

        A run that has committed some of a queue's announced messages, and not the others `hold` seconds after the event, has
        left them.

        Args:
            unread: per queue that was asked; an empty range if it has none.
            now: seconds since 1970.
            hold: seconds.
            from_slaves: queues of `unread` that may end before they do on the master.
        """
        found = {}
        for queue, offsets in unread.items():
            start = offsets.start
            if self._counts(queue, offsets, from_slaves):
                was_left = now - self.at >= hold and start > self.offsets[queue].start
                start = start if was_left else max(start, self.offsets[queue].stop)
            if start < offsets.stop:
                found[queue] = range(start, offsets.stop)
        return found

    def is_at_work(self, unread: Offsets, now: float, hold: float, from_slaves: Collection[str] = ()) -> bool:
        """Whether a run is taken to be at work: announced messages are not committed, and the event is not `hold` seconds old."""
        return now - self.at < hold and any(
            queue in unread and self._is_pending(queue, unread[queue], from_slaves) for queue in self.awaited
        )

    def after(
        self, unread: Offsets, fresh: Offsets, now: float, from_slaves: Collection[str] = ()
    ) -> Announced:
        """This after an event for the fresh messages.

        A queue whose announced messages are not committed by now, such as one that cannot be read, is not waited for again
        until they are. Queues that were not asked keep what was announced of them.
        """
        pending = {
            queue
            for queue, offsets in unread.items()
            if queue in self.offsets and self._is_pending(queue, offsets, from_slaves)
        }
        kept = {q: offsets for q, offsets in self.offsets.items() if q in pending or q not in unread}
        new = {queue: range(unread[queue].start, offsets.stop) for queue, offsets in fresh.items()}
        return Announced({**kept, **new}, frozenset(set(fresh) - pending), now)

    def _counts(self, queue: str, offsets: range, from_slaves: Collection[str]) -> bool:
        """Whether the queue still is the one of the event: its committed offset was not set back, and it was not recreated."""
        known = self.offsets.get(queue)
        return (
            known is not None
            and known.start <= offsets.start
            and (known.stop <= offsets.stop or queue in from_slaves)
        )

    def _is_pending(self, queue: str, offsets: range, from_slaves: Collection[str]) -> bool:
        return self._counts(queue, offsets, from_slaves) and offsets.start < self.offsets[queue].stop

    def to_json(self) -> dict[str, Any]:
        offsets = {queue: [each.start, each.stop] for queue, each in self.offsets.items()}
        return {"offsets": offsets, "awaited": sorted(self.awaited), "at": self.at}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Announced:
        offsets = {queue: range(*each) for queue, each in value["offsets"].items()}
        return cls(offsets, frozenset(value["awaited"]), value["at"])
