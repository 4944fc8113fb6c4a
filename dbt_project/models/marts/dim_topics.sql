-- One row a topic that was sent to: (cluster, topic).
with sends as (
  select
    cluster,
    topic,
    min(sent_at) as first_sent_at,
    max(sent_at) as last_sent_at,
    count(*) as sends,
    array_sort(collect_set(topic_kind)) as topic_kinds,
    array_sort(collect_set(msg_type)) as msg_types,
    array_sort(collect_set(layout)) as layouts
  from {{ ref('fct_sends') }}
  where topic is not null
  group by cluster, topic
),

attempts as (
  select
    cluster,
    topic,
    min(occurred_at) as first_attempt_at,
    max(occurred_at) as last_attempt_at,
    count(*) as attempts
  from {{ ref('fct_consume_attempts') }}
  where topic is not null
  group by cluster, topic
)

select
  sends.cluster,
  sends.topic,
  least(sends.first_sent_at, attempts.first_attempt_at) as first_seen_at,
  greatest(sends.last_sent_at, attempts.last_attempt_at) as last_seen_at,
  sends.sends,
  coalesce(attempts.attempts, 0) as attempts,
  sends.topic_kinds,
  sends.msg_types,
  sends.layouts
from sends
left join attempts
  on sends.cluster = attempts.cluster and sends.topic = attempts.topic
