-- One row a consumer group, topic and hour: (cluster, consumer_group, topic, hour), of attempts with a SubAfter;
-- topic is NULL where no Pub tells it.
{{ config(partition_by='days(hour)', replaces='hour') }}
with totals as (
  select
    cluster,
    consumer_group,
    topic,
    hour,
    {{ latency_by_bucket('cost_ms') }}
  from {{ in_hours_of('affected', ref('fct_consume_attempts')) }}
  where consumer_group is not null and has_end
  group by all
),

hours as (
  select
    cluster,
    consumer_group,
    topic,
    hour,
    sum(cases) as attempts_with_end,
    {{ latency_of_buckets() }}
  from totals
  group by cluster, consumer_group, topic, hour
)

select
  cluster,
  consumer_group,
  topic,
  hour,
  attempts_with_end,
  {{ latency_columns() }}
from hours
