"""What the clients of recorded traffic did, and the broker's offsets before and after it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from sandbox import record
from sandbox.record import Offsets, offsets_from_json


@dataclass
class Record(record.Record):
    """The events of one or more runs, each kind in the order of its files.

    `offsets_before` is the first run's, `offsets_after` the last one's.
    """

    runs: list[Path] = field(default_factory=list)
    offsets_before: Offsets = field(default_factory=dict)
    offsets_after: Offsets = field(default_factory=dict)

    def summary(self) -> dict[str, dict[str, int]]:
        """Numbers of sends by kind, of listener calls by outcome, and of decisions by state."""
        return {
            "sends": dict(Counter(e["kind"] for e in self.sends)),
            "consumes": dict(Counter(e["outcome"] for e in self.consumes)),
            "transactions": dict(
                Counter(f"{e['state']}{' (check)' if e['check'] else ''}" for e in self.transactions)
            ),
        }


def read_record(folder: Path) -> Record:
    """The events of one run folder, or of all runs below a record folder.

    Raises:
        FileNotFoundError: there is no run.
    """
    runs = [folder] if folder.name.startswith("run-") else sorted(folder.glob("run-*"))
    if not runs or not runs[0].is_dir():
        raise FileNotFoundError(f"no recorded traffic in {folder}")
    found = Record(runs=runs)
    for run in runs:
        for file in sorted(run.glob("*.jsonl")):
            with file.open(encoding="utf-8") as lines:
                for line in lines:
                    found.add(json.loads(line))
        if (offsets := run / "offsets.json").exists():
            before_and_after = json.loads(offsets.read_text())
            found.offsets_before = found.offsets_before or offsets_from_json(before_and_after["before"])
            found.offsets_after = offsets_from_json(before_and_after["after"])
    return found
