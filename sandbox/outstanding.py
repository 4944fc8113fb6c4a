"""The outstanding deliveries of a run, read from the record while it is written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from sandbox import scenarios
from sandbox.record import Event

# A delivery: message id, group, and the application for a broadcast group, in which each client gets its own copy.
Delivery = tuple[str, str, str | None]
MIN_CHECKS = 2  # of an undecided transaction before a run ends


class Outstanding:
    """Follows the record files of a run folder."""

    def __init__(self, run: Path):
        self._run = run
        self._positions: dict[Path, int] = {}
        self._done: set[Delivery] = set()
        self._committed: set[str] = set()
        self._rolled_back: set[str] = set()
        self._checks: Counter[str] = Counter()
        self._undecided: dict[str, Event] = {}
        self.open: set[Delivery] = set()
        self.sent = 0
        self.finished = 0

    def read(self) -> int:
        """Read what was written since the last call; return the number of outstanding deliveries and transactions."""
        for file in self._run.glob("*.jsonl"):
            position = self._positions.get(file, 0)
            with file.open("rb") as lines:
                lines.seek(position)
                data = lines.read()
            whole = data.rfind(b"\n") + 1  # the last line may be half written
            self._positions[file] = position + whole
            for line in data[:whole].splitlines():
                self._take(json.loads(line))
        for msg_id, send in list(self._undecided.items()):
            self._decide(msg_id, send)
        return len(self.open) + len(self._undecided)

    def _take(self, event: Event) -> None:
        if event["event"] == "send":
            self.sent += 1
            if event["transaction_plan"]:
                self._undecided[event["msg_id"]] = event
            else:
                self._expect(event)
        elif event["event"] == "consume":
            self._consumed(event)
        else:
            if event["state"] == "commit":
                self._committed.add(event["msg_id"])
            elif event["state"] == "rollback":
                self._rolled_back.add(event["msg_id"])
            self._checks[event["msg_id"]] += event["check"]

    def _decide(self, msg_id: str, send: Event) -> None:
        if msg_id in self._committed:
            self._expect(send)
        elif msg_id not in self._rolled_back and (
            send["transaction_plan"] != "unknown" or self._checks[msg_id] < MIN_CHECKS
        ):
            return
        del self._undecided[msg_id]

    def _expect(self, send: Event) -> None:
        for subscription in scenarios.groups_of(send["topic"], send["tags"]):
            copies: list[str | None] = [None]
            if subscription.broadcast:
                copies = list(scenarios.CONSUMERS_OF_GROUP[subscription.group])
            for msg_id in send["msg_ids"]:
                for copy in copies:
                    delivery = (msg_id, subscription.group, copy)
                    if delivery in self._done:
                        self.finished += 1
                    else:
                        self.open.add(delivery)

    def _consumed(self, event: Event) -> None:
        group = event["consumer_group"]
        last = scenarios.MAX_RECONSUME_TIMES.get(group)
        exhausted = last is not None and event["reconsume_times"] >= last
        # A slow listener's success counts, though the broker may deliver the message once more.
        ended = event["outcome"] in ("success", "timeout") or exhausted or event["broadcast"]
        if not ended:
            return
        delivery = (event["msg_id"], group, event["app"] if event["broadcast"] else None)
        self._done.add(delivery)
        if delivery in self.open:
            self.open.remove(delivery)
            self.finished += 1

    def __str__(self) -> str:
        groups = Counter(group for _, group, _ in self.open)
        parts = [f"{count} of group {group}" for group, count in groups.most_common()]
        if self._undecided:
            parts.append(f"{len(self._undecided)} undecided transactions")
        return ", ".join(parts) or "nothing"
