"""Sends, and the messages that they are of."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from tests.incremental.cluster import Cluster, Key, Record, Rows, name, present
from tests.incremental.definitions.records import nulls_first, of_type, sent_time


def sends(cluster: Cluster) -> Rows:
    """One row per send; a record that was stored twice is one row, its copies counted."""
    found: Rows = {}
    for record in of_type(cluster, "Pub"):
        known_by = present(record["msg_id"]) or present(record["offset_msg_id"]) or ""
        offsets = (present(record["offset_msg_id"]) or "").split(",")
        ids = _ids_of_batch(known_by, offsets) or ([known_by] if known_by else [])
        sent_at, source = sent_time(record)
        kind = "retry" if str(record["topic"]).startswith("%RETRY%") else "normal"
        for index, msg_id in enumerate(ids or [None]):
            offset = offsets[index] if index < len(offsets) else None
            key = (msg_id, offset or None, record["event_time"])
            if key in found:
                found[key]["copies"] += 1
                continue
            found[key] = {
                "sent_at": sent_at,
                "stored_at": record["store_time"],
                "hour_source": source,
                "topic": name(record["topic"]),
                "topic_kind": kind,
                "producer_group": name(record["group_name"]),
                "is_send_ok": record["success"],
                "cost_ms": record["cost_ms"],
                "msg_type": record["msg_type"],
                "batch_size": max(len(ids), 1),
                "tags": present(record["tags"]),
                "copies": 1,
            }
    return found


def _ids_of_batch(msg_ids: str, offsets: list[str]) -> list[str]:
    """The ids of a batch; none for an id with commas that a program has set."""
    ids = [each for each in msg_ids.split(",") if each]
    is_generated = all(re.fullmatch("[0-9A-Fa-f]{32}", each) for each in ids)
    return ids if "," in msg_ids and (is_generated or len(ids) == len([o for o in offsets if o])) else []


def messages_of(sent: Rows) -> Rows:
    """One row per message id on a topic, described by its first send."""
    of_message: dict[Key, list[Record]] = defaultdict(list)
    for (msg_id, *_), send in sent.items():
        if msg_id is not None and send["topic_kind"] == "normal":
            of_message[send["topic"], msg_id].append(send)
    found: Rows = {}
    for (topic, msg_id), same in of_message.items():
        first = min(
            same,
            key=lambda s: nulls_first(
                s["sent_at"], s["hour_source"], s["producer_group"], s["msg_type"], s["batch_size"], s["tags"]
            ),
        )
        found[topic, msg_id] = first | {
            "topic": topic,
            "msg_id": msg_id,
            "published_at": first["sent_at"],
            "sends": len(same),
        }
    return found


def publications(sent: Rows) -> dict[str, Record]:
    """The first Pub of each message id, on whatever topic, and the number of its sends."""
    found: dict[str, Record] = {}
    number = Counter[str]()
    for (msg_id, offset_msg_id, _), send in sent.items():
        if msg_id is None or send["topic_kind"] != "normal":
            continue
        number[msg_id] += 1
        key = nulls_first(
            send["sent_at"], send["stored_at"], offset_msg_id, send["topic"], send["hour_source"]
        )
        if msg_id not in found or key < found[msg_id]["key"]:
            found[msg_id] = send | {"key": key}
    return {msg_id: send | {"sends": number[msg_id]} for msg_id, send in found.items()}
