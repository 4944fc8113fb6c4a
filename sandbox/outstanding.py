"""The outstanding deliveries of a run, read from the record while it is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path

from sandbox import scenarios
from sandbox.record import Event, Record

# A delivery: message id, group, and the application for a broadcast group, in which each client gets its own copy.
Delivery = tuple[str, str, str | None]
MIN_CHECKS = 2  # of an undecided transaction before a run ends


class Outstanding:
    """Follows the record files of a run folder.

    Attributes:
        record: what was read.
        open: the deliveries that are expected and have not ended.
        finished: number of the expected ones that have ended.
        undecided: number of transactions without a decision.
    """

    def __init__(self, run: Path):
        self._run = run
        self._positions: Counter[Path] = Counter()
        self.record = Record()
        self.open: set[Delivery] = set()
        self.finished = 0
        self.undecided = 0

    def read(self) -> int:
        """Read what was written since the last call; return the number of outstanding deliveries and transactions."""
        for file in self._run.glob("*.jsonl"):
            with file.open("rb") as lines:
                lines.seek(self._positions[file])
                for line in lines:
                    if line.endswith(b"\n"):  # the last line may be half written
                        self._positions[file] += len(line)
                        self.record.add(json.loads(line))
        states = {e["msg_id"]: e["state"] for e in self.record.transactions if e["state"] != "unknown"}
        checks = Counter(e["msg_id"] for e in self.record.transactions if e["check"])
        expected: set[Delivery] = set()
        self.undecided = 0
        for send in self.record.sends:
            plan, state = send["transaction_plan"], states.get(send["msg_id"])
            if not plan or state == "commit":
                expected.update(_deliveries(send))
            elif state is None and (plan != "unknown" or checks[send["msg_id"]] < MIN_CHECKS):
                self.undecided += 1
        done = {
            (e["msg_id"], e["consumer_group"], e["app"] if e["broadcast"] else None)
            for e in self.record.consumes
            if _has_ended(e)
        }
        self.open = expected - done
        self.finished = len(expected & done)
        return len(self.open) + self.undecided

    def __str__(self) -> str:
        groups = Counter(group for _, group, _ in self.open)
        parts = [f"{count} of group {group}" for group, count in groups.most_common()]
        if self.undecided:
            parts.append(f"{self.undecided} undecided transactions")
        return ", ".join(parts) or "nothing"


def _deliveries(send: Event) -> Iterable[Delivery]:
    for subscription in scenarios.groups_of(send["topic"], send["tags"]):
        group = subscription.group
        copies: Iterable[str | None] = [None]
        if subscription.broadcast:
            copies = scenarios.CONSUMERS_OF_GROUP[group]
        yield from product(send["msg_ids"], [group], copies)


def _has_ended(attempt: Event) -> bool:
    """Whether this attempt is the last one of the delivery."""
    last = scenarios.SUBSCRIPTIONS[attempt["consumer_group"]].max_reconsume_times
    exhausted = last is not None and attempt["reconsume_times"] >= last
    # A slow listener's success counts, though the broker may deliver the message once more.
    return attempt["outcome"] in ("success", "timeout") or exhausted or attempt["broadcast"]
