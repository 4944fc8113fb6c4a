-- One row per topic and consumer group (cluster, topic, consumer_group) that the traces have seen together.
with seen as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_attempt_at) as first_attempt_at,
    max(last_attempt_at) as last_attempt_at,
    max(last_try_at) as last_try_at,
    sum(attempts) as attempts
  from {{ ref('int_consume_hours') }}
  where topic is not null and consumer_group is not null
  group by cluster, topic, consumer_group
)

select
  seen.cluster,
  seen.topic,
  seen.consumer_group,
  seen.first_attempt_at,
  seen.last_attempt_at,
  seen.last_try_at + {{ expected_group_lookback() }} as expected_to,
  seen.attempts,
  broadcast.consumer_group is not null as is_broadcast,
  progress.messages_behind,
  coalesce(group_owners.team, topic_owners.team) as team
from seen
left join {{ ref('int_broadcast_groups') }} as broadcast
  on
    seen.cluster = broadcast.cluster
    and seen.consumer_group = broadcast.consumer_group
    and broadcast.broadcast_to = timestamp '9999-12-31 00:00:00'
left join {{ ref('int_group_progress') }} as progress
  on
    seen.cluster = progress.cluster
    and seen.topic = progress.topic
    and seen.consumer_group = progress.consumer_group
left join {{ ref('owners') }} as group_owners
  on seen.cluster = group_owners.cluster and seen.consumer_group = group_owners.consumer_group
left join {{ ref('owners') }} as topic_owners
  on seen.cluster = topic_owners.cluster and seen.topic = topic_owners.topic
