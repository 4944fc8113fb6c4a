"""Metrics of the published marts, read from the serving file, without Spark."""

from __future__ import annotations

from spark_jobs.lookup.reader import Reader, Row
from spark_jobs.metrics.metric import Found, Metric, Series
from spark_jobs.metrics.windows import both, create_windows, windowed
from spark_jobs.settings import Settings

# How many messages a producer group sent to a topic, and a consumer group attempted of it, in seven days.
_TRAFFIC = """
with last_days as (select cluster, complete_to - interval 7 days as since from serving.watermarks)
select cluster, coalesce(topic, '') as topic, consumer_group as group_name, sum(attempts)::double as messages
from marts.consumer_group_success_daily
join last_days using (cluster)
where day >= since::date
group by all
union all
select cluster, coalesce(topic, ''), coalesce(producer_group, ''), sum(sends)::double
from marts.send_latency_daily
join last_days using (cluster)
where day >= since::date
group by all
"""
_GROUP = ("cluster", "topic", "consumer_group", "window")
_PRODUCER = ("cluster", "topic", "producer_group", "window")


def _numbers(mart: str, label: str, columns: dict[str, str]) -> str:
    """A series per column, named by a label."""
    names = ", ".join(f"'{name}'" for name in columns)
    return f"""
select
  cluster, coalesce(topic, '') as topic, consumer_group, "window",
  unnest([{names}]) as {label},
  unnest([{", ".join(columns.values())}])::double as value
from {windowed(mart)}"""


def _quantiles(mart: str, group: str) -> str:
    return f"""
select
  cluster, coalesce(topic, '') as topic, coalesce({group}, '') as {group}, "window",
  unnest(['0.5', '0.99']) as quantile,
  unnest([p50_ms, p99_ms]) / 1000 as value
from {windowed(mart)}
where latency_count > 0"""


def _latency(name: str, mart: str, what: str) -> Metric:
    return Metric(
        name,
        (*_GROUP, "quantile"),
        f"Median and 99th percentile of {what}, in the window.",
        both(mart),
        kind="summary",
        unit="seconds",
        sql=_quantiles(mart, "consumer_group"),
    )


METRICS = (
    Metric(
        "window_start_timestamp_seconds",
        ("cluster", "window"),
        "Start of the window: of the last complete hour, or midnight UTC before the watermark.",
        "watermarks of the publication",
        unit="seconds",
        sql='select cluster, "window", epoch(starts_at) as value from windows',
    ),
    Metric(
        "window_end_timestamp_seconds",
        ("cluster", "window"),
        "End of the window; that of the window `day` is the watermark.",
        "watermarks of the publication",
        unit="seconds",
        sql='select cluster, "window", epoch(ends_at) as value from windows',
    ),
    Metric(
        "serving_file_built_timestamp_seconds",
        (),
        "When the serving file was built that the metrics of the marts are read from.",
        "serving file",
        unit="seconds",
        sql="select epoch(built_at) as value from serving.publications",
    ),
    Metric(
        "consume_attempts",
        (*_GROUP, "outcome"),
        "Attempts of the consumer group in the window, by outcome.",
        both("consumer_group_success"),
        sql=_numbers(
            "consumer_group_success",
            "outcome",
            {"success": "succeeded"}
            | {
                name: name
                for name in ("exception", "returned_null", "failed", "timeout", "not_returned", "in_flight")
            },
        ),
    ),
    Metric(
        "consume_success_ratio",
        _GROUP,
        "Attempts of the consumer group with outcome `success`, divided by its attempts with a SubAfter, in the "
        "window; no series without such an attempt.",
        both("consumer_group_success"),
        unit="ratio",
        sql=f"""
select cluster, coalesce(topic, '') as topic, consumer_group, "window", succeeded / attempts_with_end as value
from {windowed("consumer_group_success")}
where attempts_with_end > 0""",
    ),
    Metric(
        "deliveries",
        (*_GROUP, "outcome"),
        "Deliveries of messages to the consumer group whose first attempt is in the window, by outcome.",
        both("consumer_group_success"),
        sql=_numbers(
            "consumer_group_success",
            "outcome",
            {
                name: f"deliveries_{name}"
                for name in ("succeeded", "in_flight", "not_returned", "retrying", "exhausted")
            },
        ),
    ),
    _latency("consume_latency_seconds", "consume_latency", "the duration of a listener call"),
    _latency(
        "queue_wait_seconds",
        "queue_wait",
        "the time from the publication of a message to the start of its first attempt",
    ),
    _latency(
        "end_to_end_latency_seconds",
        "end_to_end_latency",
        "the time from the publication of a message to the end of its first successful attempt",
    ),
    Metric(
        "send_latency_seconds",
        (*_PRODUCER, "quantile"),
        "Median and 99th percentile of the duration of a send, in the window.",
        both("send_latency"),
        kind="summary",
        unit="seconds",
        sql=_quantiles("send_latency", "producer_group"),
    ),
    Metric(
        "sends",
        _PRODUCER,
        "Messages whose send returned in the window; a send that fails leaves no trace.",
        both("send_latency"),
        sql=f"""
select
  cluster, coalesce(topic, '') as topic, coalesce(producer_group, '') as producer_group, "window", sends::double as value
from {windowed("send_latency")}""",
    ),
    Metric(
        "orphaned_messages",
        (*_GROUP, "cause", "evidence"),
        "Orphans among the messages that were published in the window, by cause and evidence; `consumer_group` is the group that "
        "was expected to consume them, empty if there is none.",
        "marts.orphaned_messages",
        sql="""
select
  cluster, coalesce(topic, '') as topic, coalesce(expected_group, '') as consumer_group, "window", cause,
  coalesce(evidence, '') as evidence, sum(messages)::double as value
from windows
join orphans using (cluster)
where hour >= starts_at and hour < ends_at
group by all""",
    ),
    Metric(
        "judged_messages",
        _GROUP,
        "Messages that were published in the window and can be judged: the denominator of the orphan rate.",
        both("orphan_rate"),
        sql=f"""
select
  cluster, coalesce(topic, '') as topic, expected_group as consumer_group, "window", judged::double as value
from {windowed("orphan_rate")}""",
    ),
    Metric(
        "orphan_ratio",
        (*_GROUP, "evidence"),
        "Messages whose cause counts in the orphan rate, by evidence, divided by the judged messages, in the window; no series "
        "without a judged message.",
        both("orphan_rate"),
        unit="ratio",
        sql=f"""
select
  cluster, coalesce(topic, '') as topic, expected_group as consumer_group, "window",
  unnest(['proven', 'inferred', 'unknown']) as evidence,
  unnest([orphaned_proven, orphaned_inferred, orphaned_unknown]) / judged as value
from {windowed("orphan_rate")}
where judged > 0""",
    ),
    Metric(
        "consumer_lag_messages",
        ("cluster", "topic", "consumer_group"),
        "Messages between the committed offsets of the group and the ends of the topic's queues, at the broker facts of the "
        "watermark; no series if that is unknown.",
        "marts.topic_consumer_groups",
        sql="""
select cluster, coalesce(topic, '') as topic, consumer_group, messages_behind::double as value
from marts.topic_consumer_groups
where messages_behind is not null""",
    ),
    Metric(
        "completeness_ratio",
        ("cluster", "window"),
        "Estimated share of the consumer records in the window that arrived; no series if there is no estimate.",
        both("trace_completeness"),
        unit="ratio",
        sql=f"""
with sums as (
  select
    cluster, "window", sum(pairs) as pairs, sum(ends_without_begin) as ends, sum(begins_without_end) as begins
  from {windowed("trace_completeness")}
  group by all
)
select
  cluster, "window", (2 * pairs + ends + begins) / (2 * (pairs + begins)::double * (pairs + ends) / pairs) as value
from sums
where pairs > 0""",
    ),
    Metric(
        "coverage_ratio",
        ("cluster", "side", "topic", "consumer_group", "window"),
        "Messages in the traces of the window, divided by the messages that the brokers counted, of the hours in which both are "
        "known; `consumer_group` is empty on the side `producer`.",
        both("trace_coverage"),
        unit="ratio",
        sql=f"""
select
  cluster, side, coalesce(topic, '') as topic, coalesce(consumer_group, '') as consumer_group, "window",
  traced_known / broker_messages as value
from {windowed("trace_coverage")}
where broker_messages > 0""",
    ),
    Metric(
        "slo_burn_ratio",
        ("cluster", "objective", "severity", "long_seconds", "window"),
        "Burn of the error budget in the `long` or `short` window of a pair; 1 uses up the budget in exactly the period of the "
        "objective.",
        "marts.slo_burn",
        unit="ratio",
        sql="""
select * from (
  select
    cluster, objective_name as objective, severity, long_seconds::varchar as long_seconds,
    unnest(['long', 'short']) as "window", unnest([long_burn, short_burn]) as value
  from marts.slo_burn
)
where value is not null""",
    ),
    Metric(
        "slo_burning",
        ("cluster", "objective", "severity", "long_seconds"),
        "1 if both windows of the pair burn at the threshold or faster, else 0.",
        "marts.slo_burn",
        sql="""
select
  cluster, objective_name as objective, severity, long_seconds::varchar as long_seconds, is_burning::integer::double as value
from marts.slo_burn""",
    ),
    Metric(
        "slo_objective_ratio",
        ("cluster", "objective"),
        "Share of good events that the objective demands.",
        "marts.slo_burn",
        unit="ratio",
        sql="select distinct cluster, objective_name as objective, objective as value from marts.slo_burn",
    ),
    Metric(
        "slo_objective",
        ("cluster", "objective", "indicator", "topic", "consumer_group"),
        "1 for each objective, with what it counts; topic and group are empty for all.",
        "marts.slo_burn",
        kind="info",
        sql="""
select distinct
  cluster, objective_name as objective, indicator, coalesce(topic, '') as topic,
  coalesce(consumer_group, '') as consumer_group, 1.0 as value
from marts.slo_burn""",
    ),
)

Traffic = dict[tuple[str, ...], float]


def read(reader: Reader, settings: Settings) -> tuple[Found, Traffic]:
    """All series of the marts, and by (cluster, topic, group) the messages of seven days, which say what to keep.

    Raises:
        duckdb.Error: the file, or a file of its tables, cannot be read.
    """
    create_windows(reader, settings.limits.grace_seconds)
    found = {metric: _series(metric, reader.query(metric.sql)) for metric in METRICS}
    traffic = reader.query(_TRAFFIC)
    return found, {(row["cluster"], row["topic"], row["group_name"]): row["messages"] for row in traffic}


def _series(metric: Metric, rows: list[Row]) -> list[Series]:
    return [Series(tuple(row[label] for label in metric.labels), row["value"]) for row in rows]
