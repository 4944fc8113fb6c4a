"""The metrics of the marts are the rows of the marts in Spark, of the last complete hour and since midnight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_jobs.lookup.reader import Reader
from spark_jobs.mart_build import branches
from spark_jobs.metrics.exposition import page, text
from spark_jobs.metrics.marts import METRICS, read
from spark_jobs.metrics.metric import PREFIX
from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.settings import Limits, Serving, Settings
from tests.dbt.events import NOON
from tests.plugins.prometheus import Values
from tests.plugins.prometheus import values as parsed

HOUR = timedelta(hours=1)
WATERMARK = NOON.replace(tzinfo=UTC) + 24 * HOUR
OUTCOMES = ("exception", "returned_null", "failed", "timeout", "not_returned", "in_flight")
DELIVERIES = ("succeeded", "in_flight", "not_returned", "retrying", "exhausted")
LATENCIES = {
    "send_latency_seconds": ("send_latency", "producer_group"),
    "consume_latency_seconds": ("consume_latency", "consumer_group"),
    "queue_wait_seconds": ("queue_wait", "consumer_group"),
    "end_to_end_latency_seconds": ("end_to_end_latency", "consumer_group"),
}
LAG = "topic_consumer_groups"
WINDOWED = [
    *("consumer_group_success", "orphan_rate", "trace_completeness", "trace_coverage"),
    *(mart for mart, _ in LATENCIES.values()),
]
READ = ["orphaned_messages", "slo_burn", LAG, *WINDOWED, *(f"{name}_daily" for name in WINDOWED)]
# Brokers and objectives are no part of the story.
ROWS = {
    "slo_burn": [
        ("test", "orders", 3600, 300, "page", "consume_success", "orders", None, 0.99, 30, None, WATERMARK)
        + (1000, 25, 100, 0, 0, 2.5, 0.0, 14.4, False),
        ("test", "all", 259200, 21600, "ticket", "send_latency", None, None, 0.9, 30, 100, WATERMARK)
        + (0, 0, 0, 0, 0, None, None, 1.0, False),
        ("test", "all", 3600, 300, "page", "send_latency", None, None, 0.9, 30, 100, WATERMARK)
        + (10, 10, 1, 1, 0, 10.0, 10.0, 1.0, True),
    ],
    "trace_coverage": [
        ("test", "producer", "orders", None, WATERMARK - 2 * HOUR, 8, 5, 5, 1, None),
        ("test", "consumer", "orders", "g", WATERMARK - 2 * HOUR, 0, 0, 0, 1, None),
        ("test", "consumer", "orders", "h", WATERMARK - 2 * HOUR, None, 3, 0, 0, "open"),
    ],
    "trace_coverage_daily": [
        ("test", "producer", "orders", None, WATERMARK.date(), 40, 30, 25, 5),
        ("test", "consumer", "orders", "g", WATERMARK.date(), 7, 9, 9, 2),
    ],
}


Rows = dict[str, list[Any]]


@pytest.fixture(scope="module")
def tables(marts, catalog) -> Iterator[Rows]:
    """The rows of the marts in Spark, by name: the story, and `ROWS`."""
    heads = {name: branches.heads(catalog, f"marts.{name}")["main"] for name in (*ROWS, LAG)}
    for name, rows in ROWS.items():
        schema = marts.table(f"lake.marts.{name}").schema
        marts.createDataFrame(rows, schema).writeTo(f"lake.marts.{name}").append()
    marts.sql(f"update lake.marts.{LAG} set messages_behind = 41 where consumer_group = 'g'")
    yield {name: marts.table(f"lake.marts.{name}").collect() for name in READ}
    for name, head in heads.items():
        marts.sql(f"call lake.system.set_current_snapshot('lake.marts.{name}', {head})")


@pytest.fixture
def served_marts(request, tables, settings) -> Iterator[Settings]:
    """The settings of a lake whose serving file has these rows; the limit of the copied ones is the parameter."""
    files.remove_all(settings)
    build(settings.model_copy(update={"serving": Serving(copied_rows=request.param)}))
    yield settings
    files.remove_all(settings)


def values(settings: Settings, grace: timedelta) -> Values:
    """All samples of what a scrape would give, parsed by Prometheus' parser for Python."""
    limits = Limits(grace_seconds=int(grace.total_seconds()))
    with Reader.open(settings) as reader:
        found, _ = read(reader, settings.model_copy(update={"limits": limits}))
    body, _ = page([text(found, True)], True)
    return parsed(body.decode())


def expected(tables: Rows, hour: datetime) -> Values:
    """What the definitions on docs/metrics.md say, of the rows in Spark."""
    found: Values = {}

    def add(name: str, value: float, **labels: Any) -> None:
        found[name, frozenset((label, text or "") for label, text in labels.items())] = float(value)

    def rows(mart: str) -> Iterator[tuple[str, Any]]:
        for row in tables[mart]:
            if row.cluster == "test" and row.hour.replace(tzinfo=UTC) == hour:
                yield "hour", row
        for row in tables[f"{mart}_daily"]:
            if row.cluster == "test" and row.day == WATERMARK.date():
                yield "day", row

    day = datetime(WATERMARK.year, WATERMARK.month, WATERMARK.day, tzinfo=UTC)
    bounds = {"hour": (hour, hour + HOUR), "day": (day, WATERMARK)}
    for window, (start, end) in bounds.items():
        add("window_start_timestamp_seconds", start.timestamp(), cluster="test", window=window)
        add("window_end_timestamp_seconds", end.timestamp(), cluster="test", window=window)
    for window, row in rows("consumer_group_success"):
        of = {"cluster": "test", "topic": row.topic, "consumer_group": row.consumer_group, "window": window}
        add("consume_attempts", row.succeeded, outcome="success", **of)
        for outcome in OUTCOMES:
            add("consume_attempts", row[outcome], outcome=outcome, **of)
        for outcome in DELIVERIES:
            add("deliveries", row[f"deliveries_{outcome}"], outcome=outcome, **of)
        if row.attempts_with_end:
            add("consume_success_ratio", row.succeeded / row.attempts_with_end, **of)
    for name, (mart, group) in LATENCIES.items():
        for window, row in rows(mart):
            of = {"cluster": "test", "topic": row.topic, group: row[group], "window": window}
            if row.latency_count:
                add(name, row.p50_ms / 1000, quantile="0.5", **of)
                add(name, row.p99_ms / 1000, quantile="0.99", **of)
            if mart == "send_latency":
                add("sends", row.sends, **of)
    orphans: dict[tuple[str | None, ...], int] = defaultdict(int)
    for row in tables["orphaned_messages"]:
        for window, (start, end) in bounds.items():
            if row.is_orphan and start <= row.published_at.replace(tzinfo=UTC) < end:
                orphans[row.topic, row.expected_group, window, row.cause, row.evidence] += 1
    for (topic, group, window, cause, evidence), count in orphans.items():
        of = {"cluster": "test", "topic": topic, "consumer_group": group, "window": window}
        add("orphaned_messages", count, cause=cause, evidence=evidence, **of)
    for window, row in rows("orphan_rate"):
        of = {"cluster": "test", "topic": row.topic, "consumer_group": row.expected_group, "window": window}
        add("judged_messages", row.judged, **of)
        for evidence in ("proven", "inferred", "unknown") if row.judged else ():
            add("orphan_ratio", row[f"orphaned_{evidence}"] / row.judged, evidence=evidence, **of)
    for row in tables[LAG]:
        if row.messages_behind is not None:
            of = {"cluster": row.cluster, "topic": row.topic, "consumer_group": row.consumer_group}
            add("consumer_lag_messages", row.messages_behind, **of)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for window, row in rows("trace_completeness"):
        for n, name in enumerate(("pairs", "ends_without_begin", "begins_without_end")):
            sums[window][n] += row[name]
    for window, (pairs, ends, begins) in sums.items():
        if pairs:
            seen, attempts = 2 * pairs + ends + begins, (pairs + begins) * (pairs + ends) / pairs
            add("completeness_ratio", seen / (2 * attempts), cluster="test", window=window)
    for window, row in rows("trace_coverage"):
        of = {"cluster": "test", "topic": row.topic, "consumer_group": row.consumer_group, "window": window}
        if row.broker_messages:
            add("coverage_ratio", row.traced_known / row.broker_messages, side=row.side, **of)
    for row in tables["slo_burn"]:
        of = {"cluster": row.cluster, "objective": row.objective_name}
        pair = {"severity": row.severity, "long_seconds": str(row.long_seconds)}
        add("slo_burning", row.is_burning, **of, **pair)
        for window, burn in (("long", row.long_burn), ("short", row.short_burn)):
            if burn is not None:
                add("slo_burn_ratio", burn, window=window, **of, **pair)
        add("slo_objective_ratio", row.objective, **of)
        names = {"indicator": row.indicator, "topic": row.topic, "consumer_group": row.consumer_group}
        add("slo_objective_info", 1, **of, **names)
    return found


@pytest.mark.parametrize(
    ("served_marts", "hours"),
    [(1_000_000, range(1, 24)), (0, (1, 9, 23))],
    ids=["copied", "in place"],
    indirect=["served_marts"],
)
def test_the_values_are_those_of_the_marts_in_spark(tables, served_marts, hours):
    """The grace moves the last complete hour back to any hour of the story."""
    named = set()
    for back in hours:
        found = values(served_marts, (back - 1) * HOUR)
        named |= {name for name, _ in found}
        built = found.pop(("serving_file_built_timestamp_seconds", frozenset()))
        assert 0 < datetime.now(UTC).timestamp() - built < 3600
        wanted = expected(tables, WATERMARK - back * HOUR)
        assert found.keys() == wanted.keys()
        assert found == pytest.approx(wanted, rel=1e-12)
    assert named == {metric.full_name.removeprefix(PREFIX) for metric in METRICS}
