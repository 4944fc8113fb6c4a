"""States of messages, and the marts that sum facts by hour."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime

from tests.incremental.cluster import ENDED_WELL, Cluster, Key, Record, Rows, hour_of, name


def message_states(messages: Rows, found: dict[str, Rows]) -> Rows:
    """One row per message; what was consumed and has no Pub is a row with topic NULL."""
    of_message: dict[Key, dict[str | None, list[tuple[str | None, int, datetime | None]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for (msg_id, group, _), row in found["fct_deliveries"].items():
        of_message[row["topic"], msg_id][group].append((row["outcome"], row["attempts"], row["succeeded_at"]))
    for (_, msg_id), row in found["fct_consume_attempts"].items():
        if row["consumer_group"] is None and msg_id is not None:
            well = row["outcome"] in ENDED_WELL
            of_message[row["topic"], msg_id][None].append(
                ("succeeded" if well else None, 1, row["ended_at"] if well else None)
            )
    missing: dict[Key, list[Record]] = defaultdict(list)
    for (topic, msg_id, _), row in found["orphaned_messages"].items():
        missing[topic, msg_id].append(row)
    rows: Rows = {}
    for key in messages.keys() | of_message.keys():
        message, groups, unconsumed = messages.get(key), of_message[key], missing[key]
        outcomes = Counter(outcome for each in groups.values() for outcome, *_ in each)
        causes = Counter(row["cause"] for row in unconsumed)
        attempted = sum(count for each in groups.values() for _, count, _ in each)
        orphaned = sum(row["is_orphan"] for row in unconsumed)
        if message is None:
            state = "unpublished"
        elif orphaned:
            state = "orphaned"
        elif outcomes["exhausted"] + outcomes["not_returned"]:
            state = "failed"
        elif outcomes["in_flight"] + outcomes["retrying"] or any(
            causes[cause]
            for cause in ("within_grace", "delayed_not_due", "in_flight", "retrying", "in_backlog")
        ):
            state = "open"
        elif (
            any(causes[cause] for cause in ("rolled_back", "recalled", "half_uncommitted")) and not attempted
        ):
            state = "withheld"
        elif any(row["cause"] != "filtered" for row in unconsumed) or not outcomes["succeeded"]:
            state = "untraced"
        else:
            state = "consumed"
        successes = [at for each in groups.values() for _, _, at in each if at is not None]
        rows[key] = {
            "state": state,
            "is_published": message is not None,
            "sends": message["sends"] if message else 0,
            "consumer_groups": sum(group is not None for group in groups),
            "groups_succeeded": sum(
                group is not None and all(outcome == "succeeded" for outcome, *_ in each)
                for group, each in groups.items()
            ),
            "groups_orphaned": orphaned,
            "attempts": attempted,
            "first_success_at": min(successes, default=None),
            "last_success_at": max(successes, default=None),
        }
    return rows


def consumer_group_success(found: dict[str, Rows]) -> Rows:
    """Sums by group, topic and hour."""
    sums: dict[Key, Counter[str]] = defaultdict(Counter)
    for attempt in found["fct_consume_attempts"].values():
        if attempt["consumer_group"] is not None:
            of_hour = sums[attempt["consumer_group"], attempt["topic"], attempt["hour"]]
            outcome = attempt["outcome"]
            of_hour["attempts"] += 1
            of_hour["attempts_with_end"] += attempt["has_end"]
            of_hour["succeeded" if outcome == "success" else outcome] += 1
            of_hour["ends_without_begin"] += not attempt["has_begin"]
            of_hour["attempts_without_pub"] += not attempt["is_published"]
    for (_, group, _), delivery in found["fct_deliveries"].items():
        of_hour = sums[group, delivery["topic"], delivery["hour"]]
        of_hour["deliveries"] += 1
        of_hour[f"deliveries_{delivery['outcome']}"] += 1
        of_hour["first_attempts"] += delivery["is_first_attempt_success"] is not None
        of_hour["first_attempts_succeeded"] += bool(delivery["is_first_attempt_success"])
    columns = (
        *("attempts", "attempts_with_end", "succeeded", "exception", "returned_null", "failed", "timeout"),
        *("not_returned", "in_flight", "ends_without_begin", "attempts_without_pub", "deliveries"),
        *("deliveries_succeeded", "deliveries_in_flight", "deliveries_not_returned", "deliveries_retrying"),
        *("deliveries_exhausted", "first_attempts", "first_attempts_succeeded"),
    )
    return {key: {column: counts[column] for column in columns} for key, counts in sums.items()}


def trace_volume(cluster: Cluster) -> Rows:
    """By trace topic, type, topic, group and hour of the store time; of messages that are not in raw no bytes are known."""
    records: Counter[Key] = Counter()
    messages: dict[Key, set[Key]] = defaultdict(set)
    for record in cluster.records:
        key = (
            *(
                record["trace_topic"],
                record["record_type"],
                name(record["topic"]),
                name(record["group_name"]),
            ),
            hour_of(record["store_time"]),
        )
        records[key] += 1
        messages[key].add(tuple(record[n] for n in ("broker", "queue_id", "epoch", "queue_offset")))
    return {
        key: {"records": count, "trace_messages": len(messages[key]), "stored_bytes": None}
        for key, count in records.items()
    }
