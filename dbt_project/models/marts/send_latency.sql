-- One row a topic, producer group and hour: (cluster, topic, producer_group, hour), of sends that returned.
{{ config(partition_by='days(hour)', replaces='hour') }}
with totals as (
  select
    cluster,
    topic,
    producer_group,
    hour,
    {{ latency_by_bucket('cost_ms') }},
    count_if(is_send_ok) as succeeded,
    count_if(is_send_ok is null) as status_unknown,
    count_if(batch_index = 0) as calls,
    count_if(hour_source = 'store_time') as sends_by_store_time,
    sum(copies - 1) as extra_copies
  from {{ in_hours_of('affected', ref('fct_sends')) }}
  group by all
),

hours as (
  select
    cluster,
    topic,
    producer_group,
    hour,
    sum(cases) as sends,
    sum(succeeded) as succeeded,
    sum(status_unknown) as status_unknown,
    sum(calls) as calls,
    {{ latency_of_buckets() }},
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
  {{ latency_columns() }},
  sends_by_store_time,
  extra_copies
from hours
