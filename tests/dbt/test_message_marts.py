"""What the marts of messages, transactions, orphans and completeness say of the story."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from tests.dbt.events import at
from tests.dbt.story import DAY, HOUR, whole_day

STATES = {
    "consumed": [
        *("first", "ok", "second_time", "ends_timeout", "pair-1", "pair-2"),
        *("to_all-0", "to_all-1", "to_all-2", "o-go-1", "o-go-2"),
    ],
    "failed": ["ends_exception", "ends_returned_null", "ends_failed", "last_try"],
    "orphaned": ["gone", "lost", "committed", "unwatched", "paid", "no_status"],
    "open": ["open", "in_retry", "delayed", "just_sent"],
    "withheld": ["rolled_back", "recalled", "half_open", "refused", "forgotten", "asked"],
    "untraced": ["lost_in_gap", "batch-1", "batch-2", "batch-3"],
    "unpublished": ["unknown_pub", "nameless"],
}


def rows(spark, table: str, where: str = "true") -> list[dict]:
    return [row.asDict(recursive=True) for row in spark.table(f"lake.marts.{table}").where(where).collect()]


def pick(row: dict, *columns: str) -> tuple:
    return tuple(row[column] for column in columns)


def host(client: str) -> str:
    return client.partition("@")[0].rpartition(":")[0] or client


def test_states_of_messages(marts):
    found = {row["msg_id"]: row["state"] for row in rows(marts, "fct_messages")}
    expected = {msg_id: state for state, ids in STATES.items() for msg_id in ids}
    assert {msg_id: found[msg_id] for msg_id in expected} == expected
    assert "half_not_seen" not in found
    assert "later_run" not in found


def test_the_life_of_a_message(marts):
    by_id = {row["msg_id"]: row for row in rows(marts, "fct_messages")}
    retried = by_id["second_time"]
    assert pick(retried, "topic", "published_at", "producer_group", "sends", "extra_copies") == (
        *("orders", at(HOUR + 10), "producers", 1, 0),
    )
    assert pick(retried, "consumer_groups", "groups_succeeded", "groups_orphaned", "attempts") == (1, 1, 0, 2)
    assert pick(retried, "first_attempt_at", "first_success_at", "last_success_at") == (
        *(at(HOUR + 11), at(HOUR + 22), at(HOUR + 22)),
    )
    assert pick(by_id["o-go-2"], "topic", "published_at", "hour", "batch_size", "groups_succeeded") == (
        *("go_batches", at(HOUR - 0.001), at(0), 2, 1),
    )
    assert pick(by_id["to_all-0"], "consumer_groups", "groups_succeeded", "attempts") == (1, 1, 2)
    assert pick(by_id["resent"], "sends", "extra_copies") == (2, 0)
    assert pick(by_id["stored_twice"], "sends", "extra_copies") == (1, 1)
    assert pick(by_id["unknown_pub"], "topic", "is_published", "published_at", "hour", "attempts") == (
        *(None, False, None, at(HOUR), 1),
    )
    assert pick(by_id["nameless"], "consumer_groups", "attempts") == (0, 1)
    assert pick(by_id["refused"], "msg_type", "is_transactional", "transaction_state") == (
        *("commit", True, "rollback"),
    )
    assert pick(by_id["forgotten"], "is_transactional", "transaction_state") == (True, "undecided")
    assert pick(by_id["recalled"], "is_recalled", "is_delayed", "transaction_state") == (True, True, None)
    assert by_id["just_sent"]["next_review_at"] == at(DAY - 60 + 15 * 60)


def test_transactions(marts):
    found = {
        row["msg_id"]: pick(row, "transaction_state", "is_half_seen", "is_past_due")
        for row in rows(marts, "fct_transactions")
    }
    assert found == {
        "committed": ("commit", True, False),
        "rolled_back": ("rollback", True, False),
        "half_open": ("unknown", True, True),
        "paid": ("commit", True, False),
        "refused": ("rollback", True, False),
        "forgotten": ("undecided", True, True),
        "asked": ("undecided", True, False),
        "half_not_seen": ("commit", False, False),
    }
    (paid,) = rows(marts, "fct_transactions", "msg_id = 'paid'")
    assert pick(paid, "transaction_ends", "checks_answered", "end_copies") == (3, 2, 4)
    assert pick(paid, "half_sent_at", "first_decision_at", "committed_at", "last_decision_at") == (
        *(at(2 * HOUR), at(2 * HOUR + 1), at(2 * HOUR + 120), at(2 * HOUR + 120)),
    )


def test_transaction_outcomes(marts):
    columns = ("transactions", "half_messages", "committed", "rolled_back", "state_unknown", "undecided")
    columns += ("within_grace", "checks_answered", "extra_copies")
    found = {
        row["hour"]: pick(row, *columns)
        for row in rows(marts, "transaction_outcomes", "topic = 'payments' and producer_group = 'payers'")
    }
    assert found == {
        at(2 * HOUR): (3, 3, 1, 1, 0, 1, 0, 2, 1),
        at(3 * HOUR): (1, 0, 1, 0, 0, 0, 0, 0, 0),
        at(23 * HOUR): (1, 1, 0, 0, 0, 0, 1, 0, 0),
    }


def test_orphan_rate(marts):
    counted = ("expected", "consumed", "judged", "orphaned")
    found = {
        row["hour"]: (
            pick(row, *counted),
            {k: n for k, n in row.items() if isinstance(n, int) and n and k not in counted},
        )
        for row in rows(marts, "orphan_rate", "topic = 'orders' and expected_group = 'g'")
    }
    assert found == {
        at(HOUR): ((9, 8, 9, 1), {"not_returned": 1, "orphaned_inferred": 1}),
        at(2 * HOUR): (
            (8, 0, 2, 2),
            {
                "filtered_or_lost": 2,
                "orphaned_unknown": 2,
                "rolled_back": 1,
                "recalled": 1,
                "half_uncommitted": 1,
                "untraced_batch": 3,
            },
        ),
        at(9 * HOUR): ((1, 0, 0, 0), {"trace_gap": 1}),
        at(23 * HOUR): ((5, 2, 2, 0), {"in_flight": 1, "delayed_not_due": 1, "within_grace": 1}),
    }


def test_reverse_orphans(marts):
    """Counted again, in Python."""
    expected: dict[tuple, Counter] = defaultdict(Counter)
    for delivery in rows(marts, "fct_deliveries"):
        counts = expected[delivery["consumer_group"], delivery["hour"]]
        counts["deliveries"] += 1
        counts[delivery["unpublished_cause"]] += 1
    found = {pick(row, "consumer_group", "hour"): row for row in rows(marts, "reverse_orphans")}
    assert found.keys() == expected.keys()
    for key, counts in expected.items():
        for column in ("deliveries", "before_history", "grpc_producer", "untraced_send"):
            assert found[key][column] == counts[column], (key, column)
        assert found[key]["unpublished"] == counts["deliveries"] - counts[None]
    assert found["g", at(HOUR)]["before_history"] >= 1


def test_trace_completeness(marts):
    """Counted again, in Python."""
    expected: dict[tuple, Counter] = defaultdict(Counter)
    for attempt in rows(marts, "fct_consume_attempts"):
        counts = expected[host(attempt["client"]), attempt["hour"]]
        counts["pairs"] += attempt["has_begin"] and attempt["has_end"]
        counts["ends_without_begin"] += not attempt["has_begin"]
        counts["begins_without_end"] += attempt["outcome"] == "not_returned"
        counts["in_flight"] += attempt["outcome"] == "in_flight"
        counts["attempts_without_pub"] += not attempt["is_published"]
    for send in rows(marts, "fct_sends", "batch_index = 0"):
        expected[host(send["client"]), send["hour"]]["pubs"] += 1
    found = {pick(row, "client_host", "hour"): row for row in rows(marts, "trace_completeness")}
    assert found.keys() == expected.keys()
    for key, counts in expected.items():
        assert {column: found[key][column] for column in counts} == counts, key

    both = found["10.0.0.1", at(HOUR)]
    b, x, y = pick(both, "pairs", "begins_without_end", "ends_without_begin")
    assert x > 0
    assert y > 0
    assert both["records_estimated"] == pytest.approx(2 * (b + x) * (b + y) / b)
    assert both["records_lost_estimated"] == pytest.approx(x + y + 2 * x * y / b)
    only_sends = found["10.0.0.1", at(4 * HOUR)]
    assert pick(only_sends, "records_estimated", "records_lost_estimated") == (None, None)


def test_invalid_records(marts):
    found = {row["reason"]: row for row in rows(marts, "invalid_records")}
    assert {
        reason: pick(row, "reason_class", "is_unknown_layout", "records", "hour")
        for reason, row in found.items()
    } == {
        "no layout": ("no layout", False, 1, at(0)),
        "field_count:11": ("field_count", True, 2, at(0)),
        "unknown_type": ("unknown_type", True, 1, at(0)),
    }
    assert found["field_count:11"]["sample"] == "Pub\x01x" + "é" * 97 + "\ufffd"
    assert found["unknown_type"]["sample"] == "Ack\x01\ufffd"


def test_trace_volume(marts):
    """Of all records, by the hour in which they were stored; by day the sums. Raw has no message of the story."""
    expected, days = Counter(), Counter()
    messages = defaultdict(set)
    for record in (row for row in whole_day().rows if row["change_seq"] == 1):  # others are of a later run
        topic, group = (
            re.sub(r"^(%RETRY%|%DLQ%)?([^%]+%)?", "", record[name])
            if record[name] not in (None, "null", "")
            else None
            for name in ("topic", "group_name")
        )
        of = (record["record_type"], topic, group)
        hour = record["store_time"].replace(minute=0, second=0, microsecond=0)
        expected[*of, hour] += 1
        days[*of, hour.date()] += 1
        messages[*of, hour].add(record["queue_offset"])
    grain = ("record_type", "topic", "group_name")
    assert {
        pick(row, *grain, "hour"): pick(row, "records", "trace_messages", "stored_bytes")
        for row in rows(marts, "trace_volume")
    } == {key: (count, len(messages[key]), None) for key, count in expected.items()}
    assert {pick(r, *grain, "day"): r["records"] for r in rows(marts, "trace_volume_daily")} == days


def test_unknown_layouts_are_warned_of(built):
    assert "unknown_layouts" in {node.name for node in built.warnings}


def test_a_send_without_a_status_is_not_a_failed_one(marts):
    (row,) = rows(marts, "send_latency", "topic = 'old'")
    assert pick(row, "sends", "succeeded", "status_unknown") == (1, 0, 1)
    statuses = Counter(send["is_send_ok"] for send in rows(marts, "fct_sends"))
    assert sum(row["status_unknown"] for row in rows(marts, "send_latency")) == statuses[None] == 1


def test_dimensions(marts):
    topics = {row["topic"]: row for row in rows(marts, "dim_topics")}
    assert pick(topics["payments"], "first_seen_at", "last_seen_at", "sends", "attempts", "msg_types") == (
        *(at(2 * HOUR), at(DAY - 60), 4, 0, ["commit", "half"]),
    )
    assert topics["old"]["layouts"] == ["pub_12"]
    producers = {row["producer_group"]: row for row in rows(marts, "dim_producer_groups")}
    assert pick(producers["payers"], "sends", "msg_types", "layouts") == (4, ["commit", "half"], ["pub_14"])
    consumers = {row["consumer_group"]: row for row in rows(marts, "dim_consumer_groups")}
    assert pick(consumers["everyone"], "attempts", "is_broadcast") == (6, True)
    assert pick(consumers["g"], "is_broadcast", "layouts") == (False, ["sub_after_9", "sub_before_8"])
    hosts = {row["client_host"]: row for row in rows(marts, "dim_client_hosts")}
    assert hosts["10.0.0.1"]["roles"] == ["consumer", "producer"]
    assert pick(hosts["10.0.0.2"], "roles", "sends", "attempts", "client_families") == (
        ["consumer"],
        0,
        3,
        [],
    )


@pytest.mark.parametrize(
    ("mart", "name"),
    [
        ("send_latency", "topic"),
        ("send_latency", "producer_group"),
        ("consumer_group_success", "consumer_group"),
        ("trace_completeness", "client_host"),
    ],
)
def test_each_name_in_a_mart_is_in_its_dimension(marts, mart, name):
    dimension = {"topic": "dim_topics", "client_host": "dim_client_hosts"}.get(name, f"dim_{name}s")
    names = {pick(row, "cluster", name) for row in rows(marts, mart, f"{name} is not null")}
    assert names
    assert names <= {pick(row, "cluster", name) for row in rows(marts, dimension)}
