"""What the clients did, recorded by the clients: the independent reference of the tests.

A run is a folder `run-NNNN` with one `<app>.jsonl` per process and `offsets.json`.
Each line of a `.jsonl` is one event, with the release of the client; times are epoch milliseconds of the client's clock.

`"event": "send"`, one per send call:
    app, kind (normal, async, orderly, batch, delay, transaction, one_way, unconsumed, filtered,
    custom_trace, cloud), producer_group, client_id, topic, msg_id (as on the wire: a batch is a
    comma list), msg_ids (a list), offset_msg_id (null: one-way, and transactions, whose result has
    none), keys, tags, batch_size, body_length (bytes, before compression), delay_level (0: none),
    status (SEND_OK …, null: one-way), broker, queue_id, queue_offset, sent_at_ms, cost_ms (measured around the call),
    transaction_id, transaction_plan (states in turn: the first decision, then each check; null: no
    transaction), one_way, traced (whether it leaves a Pub record), trace_topic.

`"event": "consume"`, one per message of each listener call that has returned:
    app, consumer_group, client_id, broadcast, orderly, topic (the original one, for a retry too),
    msg_id, offset_msg_id (of the stored copy: a retry has its own), keys, tags, broker, queue_id,
    queue_offset, reconsume_times, outcome (success, exception, reconsume_later, null, suspend,
    timeout: success, but later than the consume timeout), begin_ms, end_ms, call_id (one per listener
    call), call_size (its messages), region (the message's MSG_REGION, null: none), born_host,
    traced (whether it leaves a SubBefore and a SubAfter: a 5.5.0 client drops those of a whole call
    whose last message has no region), trace_topic.

`"event": "transaction"`, one per decision of the transaction listener:
    app, producer_group, client_id, topic, msg_id, transaction_id, state (commit, rollback,
    unknown), check (false: the first decision), at_ms, traced (whether it leaves an EndTransaction record:
    not of clients before 4.9.0), trace_topic.

`offsets.json` is {"before": …, "after": …}, each `{topic: {broker: {queue: [min, max]}}}` of the
trace topics by the official admin tool; "after" is read when all clients are closed.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

Event = dict[str, Any]
# Topic → broker → queue → [min, max].
Offsets = dict[str, dict[str, dict[int, list[int]]]]
_OFFSETS = TypeAdapter(Offsets)


class RecordWriter:
    """Appends events to the file of one process, whole lines at a time, from any thread."""

    def __init__(self, run_folder: Path, app: str, release: str):
        self._who = {"app": app, "release": release}
        self._file = (run_folder / f"{app}.jsonl").open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, **self._who, **fields}, separators=(",", ":")) + "\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


@dataclass
class Record:
    """The events of one or more runs, each kind in the order of its files."""

    sends: list[Event] = field(default_factory=list)
    consumes: list[Event] = field(default_factory=list)
    transactions: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        {"send": self.sends, "consume": self.consumes, "transaction": self.transactions}[
            event["event"]
        ].append(event)

    def expected(self) -> dict[str, Counter[str]]:
        """Trace topic → record type → expected number of records."""
        found: dict[str, Counter[str]] = {}
        for (topic, record_type, _), count in self.expected_of_messages().items():
            found.setdefault(topic, Counter())[record_type] += count
        return found

    def expected_of_messages(self) -> Counter[tuple[str, str, str]]:
        """(Trace topic, record type, message id) → expected number of records."""
        found: Counter[tuple[str, str, str]] = Counter()
        for events, record_types in [
            (self.sends, ["Pub"]),
            (self.consumes, ["SubBefore", "SubAfter"]),
            (self.transactions, ["EndTransaction"]),
        ]:
            for event in events:
                for record_type in record_types:
                    found[event["trace_topic"], record_type, event["msg_id"]] += event["traced"]
        return +found


_RECORD = re.compile(r"(?<![^\x01\x02])(Pub|SubBefore|SubAfter|EndTransaction|Recall)(?=\x01)")


def record_types(body: str) -> list[str]:
    """The types of the trace records in a body.

    A record begins with its type, after the end of another record or, as clients before 5.0 write them for CLOUD, of a field.
    """
    return _RECORD.findall(body)


def trace_records(body: str) -> list[list[str]]:
    """The fields of each trace record in a body; the first one is the type."""
    starts = [found.start() for found in _RECORD.finditer(body)]
    ends = [*starts[1:], len(body)]
    return [body[start:end].rstrip("\x02").split("\x01") for start, end in zip(starts, ends, strict=True)]


def offsets_from_json(decoded: object) -> Offsets:
    """Offsets decoded from JSON, with integer queue ids."""
    return _OFFSETS.validate_python(decoded)


def new_run(record_folder: Path) -> Path:
    """Create the next `run-NNNN` folder."""
    record_folder.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(run.name[4:]) for run in record_folder.glob("run-*")), default=0)
    run = record_folder / f"run-{number:04d}"
    run.mkdir()
    return run
