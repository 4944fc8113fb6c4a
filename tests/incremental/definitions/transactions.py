"""Transactions and their decisions."""

from __future__ import annotations

from collections import defaultdict

from tests.incremental.cluster import STATES, Cluster, Key, Record, Rows, decision, grace, hour_of, present
from tests.incremental.definitions.records import nulls_first, of_type, place, time_of


def transaction_ends(cluster: Cluster) -> dict[str, list[Record]]:
    """EndTransaction records of each message, copies left out, in the order in which they were decided."""
    seen: dict[str, dict[Key, Record]] = defaultdict(dict)
    for record in of_type(cluster, "EndTransaction"):
        if msg_id := present(record["msg_id"]):
            decided_at, source = time_of(record)
            state = STATES[record["transaction_state"]]
            end = {
                "decided_at": decided_at,
                "hour_source": source,
                "state": state,
                "check": record["from_transaction_check"],
            }
            end["order"] = (decided_at, place(record))
            key = (record["event_time"], state, record["from_transaction_check"])
            if key not in seen[msg_id] or end["order"] < seen[msg_id][key]["order"]:
                seen[msg_id][key] = end
    return {
        msg_id: sorted(of_message.values(), key=lambda e: e["order"]) for msg_id, of_message in seen.items()
    }


def transactions(cluster: Cluster, messages: Rows, ends: dict[str, list[Record]]) -> Rows:
    """One row per half message, or a message with an EndTransaction."""
    halves: dict[str, Record] = {}
    for (_, msg_id), message in messages.items():
        key = (
            message["msg_type"] != "half",
            *nulls_first(
                message["published_at"],
                message["topic"],
                message["hour_source"],
                message["producer_group"],
                message["msg_type"],
            ),
        )
        if msg_id not in halves or key < halves[msg_id]["order"]:
            halves[msg_id] = message | {"order": key}
    found: Rows = {}
    for msg_id in halves.keys() | ends.keys():
        half, of_message = halves.get(msg_id), ends.get(msg_id, [])
        if not of_message and (half is None or half["msg_type"] != "half"):
            continue
        state = decision(of_message) or "undecided"
        begun_at = half["published_at"] if half else of_message[0]["decided_at"]
        found[(msg_id,)] = {
            "transaction_state": state,
            "is_half_seen": half is not None,
            "is_past_due": state in ("unknown", "undecided")
            and cluster.watermark >= begun_at + grace(cluster),
            "transaction_ends": len(of_message),
            "checks_answered": sum(bool(end["check"]) for end in of_message),
            "first_decision_at": of_message[0]["decided_at"] if of_message else None,
            "last_decision_at": of_message[-1]["decided_at"] if of_message else None,
            "hour": hour_of(begun_at),
        }
    return found
