"""Histories of which each message changes its cause when the brokers are asked again, without a new record of its own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from spark_jobs.lake import tables
from tests.incremental.cluster import Collection
from tests.incremental.histories import WATERMARK, Answers, History

FIRST_ATTEMPT = WATERMARK - timedelta(days=6)
ASKED, ASKED_AGAIN = WATERMARK - timedelta(days=3), WATERMARK - timedelta(hours=2)
ENDS = (10, 20)
PUBLISHED = {
    "before_both": WATERMARK - timedelta(days=4),
    "between": WATERMARK - timedelta(hours=60),
    "for_30_hours": WATERMARK - timedelta(hours=30),
    "for_20_hours": WATERMARK - timedelta(hours=20),
}
UNKNOWN = ("filtered_or_lost", "unknown")
OVERDUE, NEVER_REACHED = ("backlog_overdue", "inferred"), ("backlog_overdue", "proven")
UNTRACED, PASSED = ("untraced_consumer", "inferred"), ("passed_untraced", "inferred")
IN_BACKLOG = ("in_backlog", "inferred")

# By history the offset of the group at both collections (the topic ended at 10, then at 20), and the cause and evidence of
# messages before and after the second.
CAUSES_BY_OFFSETS: dict[
    str, tuple[int | None, int | None, dict[str, tuple[tuple[str, str], tuple[str, str]]]]
] = {
    "caught_up": (
        *(5, 20),
        {
            "before_both": (OVERDUE, UNTRACED),
            "between": (OVERDUE, UNTRACED),
            "for_20_hours": (IN_BACKLOG, UNTRACED),
        },
    ),
    "traced_again": (*(10, 20), {"before_both": (UNTRACED, PASSED), "for_20_hours": (IN_BACKLOG, PASSED)}),
    "stopped": (
        *(10, 10),
        {
            "before_both": (UNTRACED, UNTRACED),
            "between": (OVERDUE, NEVER_REACHED),
            "for_30_hours": (IN_BACKLOG, NEVER_REACHED),
            "for_20_hours": (IN_BACKLOG, ("in_backlog", "proven")),
        },
    ),
    "set_back": (*(10, 0), {"before_both": (UNTRACED, OVERDUE), "for_20_hours": (IN_BACKLOG, IN_BACKLOG)}),
    "deleted": (*(10, 10), {"before_both": (UNTRACED, UNKNOWN), "for_20_hours": (IN_BACKLOG, UNKNOWN)}),
    "offsets_deleted": (*(10, None), {"before_both": (UNTRACED, UNKNOWN), "between": (OVERDUE, UNKNOWN)}),
    "committed_late": (
        *(None, 20),
        {"before_both": (UNKNOWN, UNTRACED), "for_20_hours": (UNKNOWN, UNTRACED)},
    ),
    "never_committed": (*(None, None), {"before_both": (UNKNOWN, UNKNOWN)}),
}


def offset_histories(batches: int) -> dict[str, History]:
    """By name; all records are in the first batch, but the late attempt of `traced_again` is in the last."""
    return {name: _history(name, batches) for name in CAUSES_BY_OFFSETS}


def _history(name: str, batches: int) -> History:
    history = History()
    messages = {"first": FIRST_ATTEMPT} | {each: PUBLISHED[each] for each in PUBLISHED}
    for msg_id, at in messages.items():
        history.records.append(_pub(len(history.records), msg_id, at))
    history.records.append(_begin(len(history.records), "first", FIRST_ATTEMPT, 1))
    if name == "traced_again":
        at = WATERMARK - timedelta(hours=1)
        history.records.append(_begin(len(history.records), "first", at, batches))
    before, after, _ = CAUSES_BY_OFFSETS[name]
    groups = frozenset(() if name == "deleted" else ("stock",))
    for number in range(batches - 1):
        asked = ASKED + timedelta(minutes=number)
        history.answers.append(_answers(asked, frozenset({"stock"}), ENDS[0], before))
    history.answers.append(_answers(ASKED_AGAIN, groups, ENDS[1], after))
    history.answers.append(
        _answers(WATERMARK - timedelta(minutes=4), frozenset({"stock"}), ENDS[1] + 1, ENDS[1])
    )
    return history


def _answers(at: datetime, groups: frozenset[str], end: int, offset: int | None) -> Answers:
    offsets = {} if offset is None else {("orders", "stock"): offset}
    return Answers(Collection(at, groups, {"orders": end}, offsets), {("orders", "stock"): "*"})


def _record(number: int, record_type: str, at: datetime, batch: int, **columns: Any) -> dict[str, Any]:
    return (
        dict.fromkeys(tables.EVENTS.column_names)
        | {
            **{"trace_topic": "RMQ_SYS_TRACE_TOPIC", "broker": "broker-a", "queue_id": 0, "epoch": 0},
            **{"queue_offset": number, "record_index": 0, "store_time": at + timedelta(seconds=1)},
            **{"born_host": "10.0.0.1:1", "record_type": record_type, "event_time": at},
            **{"event_time_suspect": False, "decoder_version": "test", "change_seq": batch},
        }
        | columns
    )


def _pub(number: int, msg_id: str, at: datetime) -> dict[str, Any]:
    sent = {"msg_id": msg_id, "offset_msg_id": f"o-{msg_id}", "topic": "orders", "group_name": "shop"}
    sent |= {"msg_type": "normal", "layout": "pub_14", "keys": "", "success": True, "cost_ms": 3.0}
    return _record(number, "Pub", at, 1, **sent)


def _begin(number: int, msg_id: str, at: datetime, batch: int) -> dict[str, Any]:
    call = {"msg_id": msg_id, "request_id": f"q{number}", "group_name": "stock", "retry_times": 0}
    return _record(number, "SubBefore", at, batch, layout="sub_before_8", keys="dKey", **call)
