-- One row per topic that was sent to: (cluster, topic).
with sends as (
  select
    cluster,
    topic,
    min(first_sent_at) as first_sent_at,
    max(last_sent_at) as last_sent_at,
    sum(sends) as sends,
    {{ sorted_union('topic_kinds') }} as topic_kinds,
    {{ sorted_union('msg_types') }} as msg_types,
    {{ sorted_union('layouts') }} as layouts
  from {{ ref('int_send_hours') }}
  where topic is not null
  group by cluster, topic
),

attempts as (
  select
    cluster,
    topic,
    min(first_attempt_at) as first_attempt_at,
    max(last_attempt_at) as last_attempt_at,
    sum(attempts) as attempts
  from {{ ref('int_consume_hours') }}
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
  sends.layouts,
  owners.team
from sends
left join attempts
  on sends.cluster = attempts.cluster and sends.topic = attempts.topic
left join {{ ref('owners') }} as owners
  on sends.cluster = owners.cluster and sends.topic = owners.topic
