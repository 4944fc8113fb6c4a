"""What the marts say of each message of the story."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.dbt.events import at
from tests.dbt.percentiles import assert_percentiles, bucket_bounds
from tests.dbt.story import DAY, HOUR, costs

# What test_latency_marts.py is about.
TIMED = "stopwatch"


def outcomes(spark, table: str, key: str) -> dict[str, str]:
    rows = spark.table(f"lake.marts.{table}").where(f"consumer_group is distinct from '{TIMED}'").collect()
    return {row[key]: row.outcome for row in rows}


def test_attempts(marts):
    found = outcomes(marts, "fct_consume_attempts", "request_id")
    expected = {
        "q-first": "success",
        "q-ok": "success",
        "q-st-0": "failed",
        "q-st-1": "success",
        "q-exception": "exception",
        "q-returned_null": "returned_null",
        "q-failed": "failed",
        "q-timeout": "timeout",
        "q-gone": "not_returned",
        "q-open": "in_flight",
        "q-last": "failed",
        "q-retry": "failed",
        "q-pair": "success",
        "q-unknown": "success",
        "q-nameless": "success",
        "q-o-go-1": "success",
        "q-o-go-2": "success",
    }
    assert {request: outcome for request, outcome in found.items() if "all" not in request} == expected


def test_a_listener_call_with_two_messages_is_two_attempts(marts):
    rows = (
        marts.table("lake.marts.fct_consume_attempts")
        .where("request_id = 'q-pair'")
        .orderBy("msg_id")
        .collect()
    )
    assert [
        (r.msg_id, r.consumer_group, r.topic, r.begin_copies, r.end_copies, r.ended_at) for r in rows
    ] == [
        ("pair-1", "g", "orders", 1, 2, None),
        ("pair-2", "g", "orders", 1, 2, None),
    ]


def test_deliveries(marts):
    rows = marts.table("lake.marts.fct_deliveries").where(f"consumer_group != '{TIMED}'").collect()
    found = {(r.msg_id, r.broadcast_client): r.outcome for r in rows}
    assert found == {
        **{
            (m, None): "succeeded"
            for m in ("first", "ok", "second_time", "ends_timeout", "pair-1", "pair-2", "unknown_pub")
        },
        **{(m, None): "succeeded" for m in ("o-go-1", "o-go-2")},
        **{(f"ends_{code}", None): "exhausted" for code in ("exception", "returned_null", "failed")},
        ("gone", None): "not_returned",
        ("open", None): "in_flight",
        ("last_try", None): "exhausted",
        ("in_retry", None): "retrying",
        **{(f"to_all-{n}", host): "succeeded" for n in range(3) for host in ("10.0.0.1:1", "10.0.0.2:1")},
    }
    by_id = {r.msg_id: r for r in rows}
    assert (by_id["second_time"].retries, by_id["second_time"].is_first_attempt_success) == (1, False)
    assert (by_id["second_time"].queue_wait_ms, by_id["second_time"].end_to_end_ms) == (1000, 12_000)
    assert (by_id["pair-1"].end_to_end_ms, by_id["to_all-0"].duplicates) == (1005, 0)
    assert by_id["unknown_pub"].unpublished_cause == "before_history"
    assert by_id["open"].next_review_at == at(DAY - 20 * 60 + 1 + 30 * 60)


def test_consumer_group_success(marts):
    rows = marts.table("lake.marts.consumer_group_success").where("topic = 'orders'").collect()
    hour = {(r.hour, r.consumer_group): r for r in rows}[at(HOUR), "g"]
    assert {
        "attempts": hour.attempts,
        "attempts_with_end": hour.attempts_with_end,
        "succeeded": hour.succeeded,
        "exception": hour.exception,
        "returned_null": hour.returned_null,
        "failed": hour.failed,
        "timeout": hour.timeout,
        "not_returned": hour.not_returned,
        "in_flight": hour.in_flight,
        "deliveries": hour.deliveries,
        "first_attempts": hour.first_attempts,
        "first_attempts_succeeded": hour.first_attempts_succeeded,
        "extra_copies": hour.extra_copies,
    } == {
        "attempts": 10,
        "attempts_with_end": 9,
        "succeeded": 4,
        "exception": 1,
        "returned_null": 1,
        "failed": 2,
        "timeout": 1,
        "not_returned": 1,
        "in_flight": 0,
        "deliveries": 9,
        "first_attempts": 9,
        "first_attempts_succeeded": 3,
        "extra_copies": 2,
    }


def test_orphans(marts):
    rows = marts.table("lake.marts.orphaned_messages").where("topic in ('orders', 'audit', 'news')").collect()
    assert {(r.msg_id, r.expected_group): r.cause for r in rows} == {
        ("lost_in_gap", "g"): "trace_gap",
        ("rolled_back", "g"): "rolled_back",
        ("recalled", "g"): "recalled",
        ("half_open", "g"): "half_uncommitted",
        ("delayed", "g"): "delayed_not_due",
        **{(f"batch-{n}", "g"): "untraced_batch" for n in (1, 2, 3)},
        ("just_sent", "g"): "within_grace",
        ("unwatched", None): "no_traced_group",
        ("open", "g"): "in_flight",
        ("gone", "g"): "not_returned",
        ("lost", "g"): "filtered_or_lost",
        ("committed", "g"): "filtered_or_lost",
    }
    assert {r.msg_id for r in rows if r.is_orphan} == {"unwatched", "gone", "lost", "committed"}
    assert {r.msg_id for r in rows if r.counts_in_orphan_rate} == {"gone", "lost", "committed"}


def test_sends(marts):
    rows = (
        marts.table("lake.marts.fct_sends")
        .where("topic = 'latency_odd'")
        .orderBy("msg_id", "sent_at")
        .collect()
    )
    assert [(r.msg_id, r.offset_msg_id, r.copies, r.hour_source, r.is_send_ok) for r in rows] == [
        ("resent", "broker-a-1", 1, "event_time", True),
        ("resent", "broker-b-1", 1, "event_time", False),
        ("stored_twice", "o-stored_twice", 2, "event_time", True),
        ("suspect", "o-suspect", 1, "store_time", True),
    ]


def test_topic_consumer_groups(marts):
    rows = marts.table("lake.marts.topic_consumer_groups").where(f"consumer_group != '{TIMED}'").collect()
    assert {(r.topic, r.consumer_group): r.is_broadcast for r in rows} == {
        ("orders", "g"): False,
        ("news", "everyone"): True,
        ("go_batches", "gophers"): False,
    }


@pytest.mark.parametrize("hour", [3, 4])
def test_percentiles_of_an_hour(marts, hour):
    """A model in plain Python: nearest rank over all durations."""
    row = (
        marts.table("lake.marts.send_latency")
        .where(f"topic = 'latency' and hour = '{at(hour * HOUR)}'")
        .first()
    )
    assert (row.sends, row.latency_count, row.latency_negative) == (
        (401, 400, 1) if hour == 3 else (400, 400, 0)
    )
    assert_percentiles(row, costs(hour))


def test_hours_add_up_to_a_day(marts):
    """Histograms of hours, summed bucket by bucket, are the histogram of all durations."""
    rows = marts.table("lake.marts.send_latency").where("topic = 'latency'").collect()
    day: Counter[int] = sum((Counter(row.histogram) for row in rows), Counter())
    together = sorted(costs(3) + costs(4))
    walked = 0
    for bucket in sorted(day):
        low, high = bucket_bounds(bucket)
        assert (high - low) / max(low, 1) <= 0.01
        assert all(low <= cost <= high for cost in together[walked : walked + day[bucket]])
        walked += day[bucket]
    assert walked == len(together) == 800
