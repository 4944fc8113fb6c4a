"""The dashboards' file with a year of hours: 200 topics, each with a producer group and a consumer group.

The tables are those of a real file, empty, as `make lint` creates them. Rows are computed from the hour and the topic: a
daily rhythm, a failure rate of about one percent, and latencies with a long tail (20 buckets a histogram).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from deploy.dashboards.lint import create_tables

TOPICS = 200
HOURS = 365 * 24

_GRID = """
create temp table grid as
select
  'prod' as cluster, 'topic-' || t as topic, 'producers-' || t as producer_group, 'group-' || t as consumer_group,
  '10.1.0.' || (t % 50) as host, h as hour,
  (1000 + 500 * sin(epoch(h) / 13750) + hash(t, h) % 200)::bigint as n
from range(timestamp '{start}', timestamp '{end}', interval 1 hour) as hours(h), range({topics}) as topics(t)
order by h
"""
_HISTOGRAM = """map_from_entries(list_transform(range(20), lambda i:
  {'k': (2 + i * (i + 1) * 2 + n % 3)::integer, 'v': (n / (1 + i) + 1)::bigint}))"""
_LATENCY = f"""n as latency_count, n % 5 as latency_negative, 900.0 + n % 100 as max_ms, 5.0 as p50_ms, 90.0 as p90_ms,
  300.0 as p95_ms, 600.0 as p99_ms, 800.0 as p999_ms, {_HISTOGRAM} as histogram"""
# Table to the expressions of its columns; columns that are not named are 0, or NULL for texts.
_MARTS = {
    "consumer_group_success": """n as attempts, n - 5 as attempts_with_end, n - 5 - n // 100 as succeeded,
      n // 200 as exception, n // 200 as failed, 5 as in_flight, n as deliveries, n - n // 100 as deliveries_succeeded,
      n // 300 as deliveries_exhausted, n as first_attempts, n - n // 60 as first_attempts_succeeded""",
    "consume_latency": f"n as attempts_with_end, {_LATENCY}",
    "queue_wait": f"n as deliveries, {_LATENCY}",
    "end_to_end_latency": f"n as deliveries, n as deliveries_succeeded, {_LATENCY}",
    "send_latency": f"n as sends, n - n // 500 as succeeded, n as calls, {_LATENCY}",
    "orphan_rate": """consumer_group as expected_group, n as expected, n - n // 200 as consumed, n as judged,
      n // 200 as orphaned, n // 200 as filtered_or_lost""",
    "reverse_orphans": "n as deliveries, n // 300 as unpublished, n // 300 as untraced_send",
    "retries": "n as deliveries, n + n // 50 as attempts, n // 60 as retried, n // 300 as exhausted, n // 50 as retries",
    "duplicates": "n as deliveries, n // 500 as duplicated, n as attempts, n // 500 as duplicates",
    "transaction_outcomes": """n // 10 as transactions, n // 10 as half_messages, n // 12 as committed,
      n // 10 - n // 12 as rolled_back""",
    "trace_completeness": """host as client_host, n as pubs, n as attempts, n as pairs, n // 100 as ends_without_begin,
      n // 90 as begins_without_end""",
    "trace_volume": """'RMQ_SYS_TRACE_TOPIC' as trace_topic, 'Pub' as record_type, producer_group as group_name, n as records,
      n as trace_messages, 300 * n as stored_bytes""",
    "clock_skew": "host as client, 'producer' as side, n as records, n % 40 as lead_ms, n as deliveries",
}
_OTHERS = """
insert into marts.topic_consumer_groups by name
  select cluster, topic, consumer_group, min(hour) as first_attempt_at, max(hour) as last_attempt_at,
    max(hour) + interval 7 day as expected_to, sum(n)::bigint as attempts, false as is_broadcast
  from grid group by all;
insert into marts.orphaned_messages by name
  select cluster, topic, md5(topic || hour || i) as msg_id, consumer_group as expected_group, 'filtered_or_lost' as cause,
    true as is_orphan, true as counts_in_orphan_rate, hour as published_at, hour, producer_group
  from grid, range(3) as numbers(i) where hour >= (select max(hour) from grid) - interval 60 day;
insert into marts.dead_letters by name
  select cluster, topic, md5(topic || hour || i) as msg_id, consumer_group, 'inferred' as evidence, 17 as attempts,
    hour as decided_at, hour
  from grid, range(2) as numbers(i) where hour >= (select max(hour) from grid) - interval 60 day;
insert into ops.check_results by name
  select 'lag' as "check", 'prod/' || topic as entity, 'freshness' as "class", 'critical' as severity,
    (n % 100)::double as value, value as largest_value, true as passed, 1 as evaluations, hour as evaluated_at
  from grid where hour >= (select max(hour) from grid) - interval 90 day;
insert into ops.alerts by name
  select 'prod:lag:' || topic as identity, 'open' as state, 'warning' as severity, topic || ' waits' as summary,
    max(hour) as first_failed_at from grid group by topic limit 20;
insert into serving.publications by name select 'benchmark' as publication_id, current_localtimestamp() as built_at;
insert into serving.watermarks select cluster, max(hour) from grid group by 1;
"""


def write(file: Path) -> dict[str, int]:
    """Write the file; return the rows of each mart by hour."""
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
    start = end - timedelta(hours=HOURS)
    counts = {}
    with duckdb.connect(file) as connection:
        connection.execute("set preserve_insertion_order = true")
        create_tables(connection)
        connection.execute(_GRID.format(start=start, end=end, topics=TOPICS))
        for mart, expressions in _MARTS.items():
            columns = connection.execute(f"describe marts.{mart}").fetchall()
            named = connection.execute(f"describe select {expressions} from grid").fetchall()
            given = {row[0] for row in named}
            grid = [
                row[0]
                for row in columns
                if row[0] in ("cluster", "topic", "producer_group", "consumer_group", "hour")
            ]
            zero = [f"0 as {name}" for name, kind, *_ in columns if kind == "BIGINT" and name not in given]
            selected = ", ".join([*(name for name in grid if name not in given), *zero, expressions])
            packed = "replace (pack_histogram(histogram) as histogram)" if "histogram" in given else ""
            counts[mart] = connection.execute(
                f"insert into marts.{mart} by name select * {packed} from (select {selected} from grid)"
            ).fetchall()[0][0]
        connection.execute(_OTHERS)
        connection.execute("checkpoint")
    return counts
