-- One row a consumer group that made an attempt: (cluster, consumer_group).
with attempts as (
  select
    cluster,
    consumer_group,
    min(occurred_at) as first_seen_at,
    max(occurred_at) as last_seen_at,
    count(*) as attempts,
    array_sort(array_union(collect_set(begin_layout), collect_set(end_layout))) as layouts
  from {{ ref('fct_consume_attempts') }}
  where consumer_group is not null
  group by cluster, consumer_group
),

deliveries as (
  select
    cluster,
    consumer_group,
    count(*) as deliveries,
    bool_or(is_broadcast) as is_broadcast
  from {{ ref('fct_deliveries') }}
  group by cluster, consumer_group
)

select
  attempts.cluster,
  attempts.consumer_group,
  attempts.first_seen_at,
  attempts.last_seen_at,
  attempts.attempts,
  coalesce(deliveries.deliveries, 0) as deliveries,
  coalesce(deliveries.is_broadcast, false) as is_broadcast,
  attempts.layouts
from attempts
left join deliveries
  on attempts.cluster = deliveries.cluster and attempts.consumer_group = deliveries.consumer_group
