"""Attempts of consumption."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from tests.incremental.cluster import (
    Cluster,
    Key,
    Record,
    Rows,
    consume_timeout,
    grace,
    hour_of,
    name,
    present,
)
from tests.incremental.definitions.records import made_by_go, ms_between, of_type, time_of
from tests.incremental.definitions.sends import publications


def attempts(cluster: Cluster, sent: Rows) -> Rows:
    """One row per listener call and message: its SubBefore and SubAfter."""
    begins, ends = _first_copies(cluster, "SubBefore"), _first_copies(cluster, "SubAfter")
    published = publications(sent)
    together: dict[Key, set[str]] = defaultdict(set)
    for record in of_type(cluster, "SubAfter"):
        if msg_id := present(record["msg_id"]):
            together[_call(record)].add(msg_id)
    found: Rows = {}
    for key in begins.keys() | ends.keys():
        begin, end = begins.get(key), ends.get(key)
        either = begin or end
        assert either is not None
        time, source = time_of(either)
        begun_at = time if begin else None
        ended_at = end["event_time"] if end and not end["event_time_suspect"] else None
        cost = None
        if begin and source == "event_time" and ended_at is not None and begun_at is not None:
            cost = float(ms_between(ended_at, begun_at))
        elif end and (len(together[_call(end)]) <= 1 or made_by_go(end["request_id"])):
            cost = end["cost_ms"]
        begin_group, end_group = (name(r["group_name"]) if r else None for r in (begin, end))
        publication = published.get(key[1]) if key[1] is not None else None
        not_returned_at = begun_at and begun_at + consume_timeout(cluster) + grace(cluster)
        found[key] = {
            "consumer_group": begin_group if begin_group is not None else end_group,
            "client": either["born_host"],
            "topic": publication["topic"] if publication else None,
            "is_published": publication is not None,
            "begun_at": begun_at,
            "ended_at": ended_at,
            "occurred_at": time,
            "hour": hour_of(time),
            "hour_source": source,
            "retry_times": begin["retry_times"] if begin else None,
            "cost_ms": cost,
            "stated_cost_ms": end["cost_ms"] if end else None,
            "outcome": _outcome(cluster, end, not_returned_at),
            "has_begin": begin is not None,
            "has_end": end is not None,
            "begin_copies": begin["copies"] if begin else 0,
            "end_copies": end["copies"] if end else 0,
        }
    return found


def _call(end: Record) -> Key:
    """The records of one call in one trace message; without a request id each message is a call of its own."""
    call = present(end["request_id"]) or present(end["msg_id"])
    return (end["queue_offset"], call)


def _first_copies(cluster: Cluster, record_type: str) -> Rows:
    found: Rows = {}
    for record in of_type(cluster, record_type):
        key = (present(record["request_id"]), present(record["msg_id"]))
        if key in found:
            found[key]["copies"] += 1
        else:
            found[key] = record | {"copies": 1}
    return found


def _outcome(cluster: Cluster, end: Record | None, not_returned_at: datetime | None) -> str:
    if end is None:
        assert not_returned_at is not None
        return "not_returned" if cluster.watermark >= not_returned_at else "in_flight"
    if not end["success"]:
        code = end["context_code"]
        return code if code in ("exception", "returned_null") else "failed"
    return "timeout" if end["context_code"] == "timeout" else "success"
