"""How a record is read: its time, its place, and which client wrote it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from tests.incremental.cluster import DAY_MS, Cluster, Key, Record


def time_of(record: Record) -> tuple[datetime, str]:
    """The record's time, and where it is from."""
    if record["event_time"] is not None and not record["event_time_suspect"]:
        return record["event_time"], "event_time"
    return record["store_time"], "store_time"


def made_by_go(an_id: str | None) -> bool:
    """Whether the Go client made the id, or the first of several."""
    return re.match("[0-9A-F]{12}0{8}[0-9a-f]{12}(,|$)", an_id or "") is not None


def sent_by_go(record: Record) -> bool:
    """Whether the Go client wrote the Pub; a batch of its has no ids but the broker's."""
    return made_by_go(record["msg_id"]) or (record["msg_id"] == "" and "," in (record["offset_msg_id"] or ""))


def sent_time(record: Record) -> tuple[datetime, str]:
    """When the send of a Pub began, and where that is from: Go writes when it ended."""
    time, source = time_of(record)
    cost = record["cost_ms"]
    if source == "event_time" and sent_by_go(record) and cost is not None and 0 <= cost <= DAY_MS:
        return time - timedelta(milliseconds=int(cost)), source
    return time, source


def place(record: Record) -> Key:
    return (
        record["store_time"],
        *(record[n] for n in ("trace_topic", "broker", "queue_id", "epoch", "queue_offset", "record_index")),
    )


def of_type(cluster: Cluster, record_type: str) -> list[Record]:
    return sorted((r for r in cluster.records if r["record_type"] == record_type), key=place)


def nulls_first(*values: Any) -> Key:
    return tuple((value is not None, value) if value is not None else (False,) for value in values)


def ms_between(later: datetime, earlier: datetime) -> int:
    return round((later - earlier) / timedelta(milliseconds=1))
