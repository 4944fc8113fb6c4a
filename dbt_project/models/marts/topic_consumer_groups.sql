-- One row a topic and consumer group (cluster, topic, consumer_group) that the traces have seen together.
with seen as (
  select
    cluster,
    topic,
    consumer_group,
    min(occurred_at) as first_attempt_at,
    max(occurred_at) as last_attempt_at,
    count(*) as attempts,
    count(distinct msg_id) as messages
  from {{ ref('fct_consume_attempts') }}
  where topic is not null and consumer_group is not null
  group by cluster, topic, consumer_group
)

select
  seen.cluster,
  seen.topic,
  seen.consumer_group,
  seen.first_attempt_at,
  seen.last_attempt_at,
  seen.last_attempt_at + {{ expected_group_lookback() }} as expected_to,
  seen.attempts,
  seen.messages,
  broadcast.consumer_group is not null as is_broadcast
from seen
left join {{ ref('int_broadcast_groups') }} as broadcast
  on seen.cluster = broadcast.cluster and seen.consumer_group = broadcast.consumer_group
