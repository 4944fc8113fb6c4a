-- One row a topic, producer group and hour: (cluster, topic, producer_group, hour), of sends that returned.
with sends as (
  select
    *,
    cost_ms is not null and cost_ms >= 0 as is_measured
  from {{ ref('fct_sends') }}
),

totals as (
  select
    cluster,
    topic,
    producer_group,
    hour,
    case when is_measured then {{ histogram_bucket('cost_ms') }} end as bucket,
    count(*) as cases,
    count_if(is_send_ok) as succeeded,
    count_if(is_send_ok is null) as status_unknown,
    count_if(batch_index = 0) as calls,
    count_if(cost_ms < 0) as negative,
    max(cost_ms) filter (where is_measured) as max_ms,
    count_if(hour_source = 'store_time') as sends_by_store_time,
    sum(copies - 1) as extra_copies
  from sends
  group by all
),

histograms as (
  select
    cluster,
    topic,
    producer_group,
    hour,
    sum(cases) as sends,
    sum(succeeded) as succeeded,
    sum(status_unknown) as status_unknown,
    sum(calls) as calls,
    coalesce(sum(cases) filter (where bucket is not null), 0) as latency_count,
    sum(negative) as latency_negative,
    max(max_ms) as max_ms,
    map_from_entries(array_sort(collect_list(struct(bucket, cases)) filter (where bucket is not null))) as histogram,
    sum(sends_by_store_time) as sends_by_store_time,
    sum(extra_copies) as extra_copies
  from totals
  group by cluster, topic, producer_group, hour
)

select
  cluster,
  topic,
  producer_group,
  hour,
  sends,
  succeeded,
  status_unknown,
  calls,
  latency_count,
  latency_negative,
  max_ms,
  {{ histogram_percentile('histogram', 500, 'max_ms') }} as p50_ms,
  {{ histogram_percentile('histogram', 900, 'max_ms') }} as p90_ms,
  {{ histogram_percentile('histogram', 950, 'max_ms') }} as p95_ms,
  {{ histogram_percentile('histogram', 990, 'max_ms') }} as p99_ms,
  {{ histogram_percentile('histogram', 999, 'max_ms') }} as p999_ms,
  histogram,
  sends_by_store_time,
  extra_copies
from histograms
