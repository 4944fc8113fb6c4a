"""What the marts of latencies, retries, duplicates and clocks say of the story, by hour and by day."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date

import pytest
from pyspark.sql import Row

from spark_jobs.mart_build.definitions import DBT_PROJECT
from tests.dbt.events import at
from tests.dbt.percentiles import PER_MILLE, assert_percentiles
from tests.dbt.story import HOUR, costs, drawn

FRIDAY, SATURDAY = date(2026, 11, 20), date(2026, 11, 21)
LATENCIES = ("send_latency", "consume_latency", "queue_wait", "end_to_end_latency")
DAILY = sorted(file.stem for file in (DBT_PROJECT / "models" / "marts" / "daily").glob("*.sql"))
# Columns of which a day has the greatest; all others but keys, percentiles and histograms are summed.
MAXIMA = {"max_ms", "max_retries", "lead_ms", "max_skew_ms", "last_stored_at"}
KEYS = {
    *(
        "cluster",
        "topic",
        "trace_topic",
        "record_type",
        "group_name",
        "producer_group",
        "consumer_group",
        "expected_group",
        "client",
        "client_host",
        "side",
    ),
    *("reason_class", "reason", "is_unknown_layout"),
}
OF_AN_HOUR = {"unknown_reason"}
ESTIMATES = {"records_estimated", "records_lost_estimated"}


def durations(mart: str) -> dict[int, list[int]]:
    """The exact durations of the mart's topic, by hour of the story."""
    if mart == "send_latency":
        return {hour: costs(hour) for hour in (3, 4)}
    waits, calls = ({hour: drawn(what, hour) for hour in (5, 6)} for what in ("wait", "cost"))
    if mart == "end_to_end_latency":
        return {hour: [sum(pair) for pair in zip(waits[hour], calls[hour], strict=True)] for hour in waits}
    return waits if mart == "queue_wait" else calls


def row_of(spark, mart: str, where: str) -> Row:
    (row,) = spark.table(f"lake.marts.{mart}").where(where).collect()
    return row


def figures(row: Row, *columns: str) -> dict[str, object]:
    return {column: row[column] for column in columns}


@pytest.mark.parametrize("mart", LATENCIES)
def test_percentiles_of_hours_and_of_their_day(marts, mart):
    """Nearest rank over all durations, computed in plain Python."""
    topic = "topic = 'latency'" if mart == "send_latency" else "topic = 'timed'"
    exact = durations(mart)
    for hour, of_hour in exact.items():
        row = row_of(marts, mart, f"{topic} and hour = '{at(hour * HOUR)}'")
        assert row.latency_count == len(of_hour)
        assert_percentiles(row, of_hour)
    day = row_of(marts, f"{mart}_daily", f"{topic} and day = '{FRIDAY}'")
    assert day.latency_count == sum(map(len, exact.values()))
    assert_percentiles(day, sum(exact.values(), []))


@pytest.mark.parametrize("name", DAILY)
def test_a_day_is_the_sum_of_its_hours(marts, name):
    """Every column of every view by day, computed in plain Python from the mart by hour."""
    days: dict[tuple, list[dict]] = defaultdict(list)
    hourly = marts.table(f"lake.marts.{name.removesuffix('_daily')}")
    key = [column for column in hourly.columns if column in KEYS]
    for row in hourly.collect():
        days[(*(row[column] for column in key), row.hour.date())].append(row.asDict())
    view = marts.table(f"lake.marts.{name}")
    assert set(view.columns) == {*hourly.columns, "day"} - {"hour", *OF_AN_HOUR}
    found = {(*(row[column] for column in key), row.day): row for row in view.collect()}
    assert set(found) == set(days)
    assert found
    for day, row in found.items():
        for column in set(view.columns) - set(key) - {"day"} - set(PER_MILLE) - ESTIMATES:
            values = [hour[column] for hour in days[day] if hour[column] is not None]
            if column == "histogram":
                assert row.histogram == sum(map(Counter, values), Counter())
            elif column in MAXIMA:
                assert row[column] == max(values, default=None), (day, column)
            elif column == "first_stored_at":
                assert row[column] == min(values), (day, column)
            elif column == "sample":
                assert row[column] == min(days[day], key=lambda hour: hour["hour"])[column]
            else:
                assert row[column] == (sum(values) if values else None), (day, column)


def test_a_day_of_losses_is_estimated_from_its_sums(marts):
    for row in marts.table("lake.marts.trace_completeness_daily").collect():
        b, x, y = row.pairs, row.begins_without_end, row.ends_without_begin
        estimated = 2 * (b + x) * (b + y) / b if b else None
        assert row.records_estimated == (pytest.approx(estimated) if b else None)
        assert row.records_lost_estimated == (pytest.approx(estimated - row.records_seen) if b else None)


ODD = f"topic = 'timed_odd' and hour = '{at(5 * HOUR)}'"
LATENCY = ("latency_count", "latency_negative", "max_ms")


def test_durations_that_are_negative_are_counted_apart(marts):
    assert figures(row_of(marts, "consume_latency", ODD), "attempts_with_end", *LATENCY) == {
        "attempts_with_end": 6,
        "latency_count": 5,
        "latency_negative": 1,
        "max_ms": 2000,
    }
    assert figures(row_of(marts, "queue_wait", ODD), "deliveries", *LATENCY) == {
        "deliveries": 5,
        "latency_count": 4,
        "latency_negative": 1,
        "max_ms": 10_000,
    }
    end_to_end = row_of(marts, "end_to_end_latency", ODD)
    assert figures(end_to_end, "deliveries", "deliveries_succeeded", *LATENCY) == {
        "deliveries": 5,
        "deliveries_succeeded": 5,
        "latency_count": 4,
        "latency_negative": 1,
        "max_ms": 8000,
    }


def test_the_cost_of_an_attempt_is_that_of_the_whole_call(marts):
    """By the two times; as stated where there is one message; unknown where there are two and no time."""
    rows = (
        marts.table("lake.marts.fct_consume_attempts").where("request_id in ('q-both', 'q-pair')").collect()
    )
    assert {row.msg_id: (row.cost_ms, row.stated_cost_ms) for row in rows} == {
        "both-1": (2000, 1000),
        "both-2": (2000, 1000),
        "pair-1": (None, 5),
        "pair-2": (None, 5),
    }
    orders = row_of(
        marts, "consume_latency", f"topic = 'orders' and consumer_group = 'g' and hour = '{at(HOUR)}'"
    )
    assert (orders.attempts_with_end, orders.latency_count) == (9, 7)


RETRIES = ("deliveries", "attempts", "retried", "exhausted", "retries", "max_retries", "histogram")


def test_retries(marts):
    orders = "topic = 'orders' and consumer_group = 'g'"
    hour = row_of(marts, "retries", f"{orders} and hour = '{at(HOUR)}'")
    assert figures(hour, *RETRIES) == dict(zip(RETRIES, (9, 10, 1, 3, 1, 1, {0: 8, 1: 1}), strict=True))
    last_day = row_of(marts, "retries_daily", f"{orders} and day = '{SATURDAY}'")
    assert figures(last_day, *RETRIES) == dict(
        zip(RETRIES, (3, 3, 2, 1, 19, 16, {0: 1, 3: 1, 16: 1}), strict=True)
    )


def test_duplicates(marts):
    columns = ("deliveries", "duplicated", "attempts", "duplicates", "extra_copies")
    assert figures(row_of(marts, "duplicates", ODD), *columns) == dict(
        zip(columns, (5, 1, 6, 1, 0), strict=True)
    )
    orders = row_of(marts, "duplicates", f"topic = 'orders' and hour = '{at(HOUR)}'")
    assert figures(orders, *columns) == dict(zip(columns, (9, 0, 10, 0, 2), strict=True))


@pytest.mark.parametrize("mart", ["retries", "duplicates"])
def test_broadcast_groups_stay_out(marts, mart):
    groups = {row.consumer_group for row in marts.table(f"lake.marts.{mart}").collect()}
    assert groups == {"g", "gophers", "stopwatch"}


def test_clock_skew(marts):
    """The producer that is half a minute ahead stands out: by its records, and by every delivery of it."""
    rows = marts.table("lake.marts.clock_skew").where(f"hour = '{at(5 * HOUR)}'").collect()
    assert {
        (row.client, row.side): (
            row.records,
            row.records_by_store_time,
            row.lead_ms,
            row.deliveries,
            row.negative_queue_waits,
            row.negative_end_to_ends,
            row.max_skew_ms,
        )
        for row in rows
    } == {
        ("10.0.0.7:1", "producer"): (1, 0, 29_000, 1, 1, 1, 28_000),
        ("10.0.0.1:1000", "producer"): (305, 1, -1000, 304, 0, 0, None),
        ("10.0.0.1:1000", "consumer"): (306, 0, -1000, 305, 1, 1, 28_000),
    }
