-- One row a consumer group, topic and hour: (cluster, consumer_group, topic, hour), of deliveries;
-- topic is NULL where no Pub tells it.
{{ config(partition_by='days(hour)', replaces='hour') }}
with totals as (
  select
    cluster,
    consumer_group,
    topic,
    hour,
    {{ latency_by_bucket('queue_wait_ms') }}
  from {{ in_hours_of('affected', ref('fct_deliveries')) }}
  group by all
),

hours as (
  select
    cluster,
    consumer_group,
    topic,
    hour,
    sum(cases) as deliveries,
    {{ latency_of_buckets() }}
  from totals
  group by cluster, consumer_group, topic, hour
)

select
  cluster,
  consumer_group,
  topic,
  hour,
  deliveries,
  {{ latency_columns() }}
from hours
