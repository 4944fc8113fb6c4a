-- One row per consumer group that made an attempt: (cluster, consumer_group).
with attempts as (
  select
    cluster,
    consumer_group,
    min(first_attempt_at) as first_seen_at,
    max(last_attempt_at) as last_seen_at,
    sum(attempts) as attempts,
    {{ sorted_union('layouts') }} as layouts
  from {{ ref('int_consume_hours') }}
  where consumer_group is not null
  group by cluster, consumer_group
)

select
  attempts.cluster,
  attempts.consumer_group,
  attempts.first_seen_at,
  attempts.last_seen_at,
  attempts.attempts,
  broadcast.consumer_group is not null as is_broadcast,
  attempts.layouts,
  owners.team
from attempts
left join {{ ref('int_broadcast_groups') }} as broadcast
  on
    attempts.cluster = broadcast.cluster
    and attempts.consumer_group = broadcast.consumer_group
    and broadcast.broadcast_to = timestamp '9999-12-31 00:00:00'
left join {{ ref('owners') }} as owners
  on attempts.cluster = owners.cluster and attempts.consumer_group = owners.consumer_group
