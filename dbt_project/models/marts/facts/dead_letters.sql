-- One row per message that a consumer group gave up: (cluster, topic, msg_id, consumer_group); topic is NULL if no Pub is known.
{{ config(partition_by='hour', replaces='message') }}
with deliveries as (
  select * from {{ rows_of_messages('affected', ref('fct_deliveries')) }}
),

checks as (
  select * from {{ ref('int_message_checks') }}
),

exhausted as (
  select
    deliveries.*,
    checks.checked_at
  from deliveries
  left join checks
    on
      deliveries.cluster = checks.cluster
      and deliveries.topic = checks.topic
      and deliveries.msg_id = checks.msg_id
      and deliveries.consumer_group = checks.consumer_group
  where deliveries.outcome = 'exhausted' and not deliveries.is_broadcast
),

-- A look-up found them in the dead-letter topic, and the traces have no attempt of the group, which need not be expected.
untraced as (
  select
    messages.*,
    checks.consumer_group,
    checks.checked_at
  from {{ ref('int_messages') }} as messages
  inner join checks
    on
      messages.cluster = checks.cluster
      and messages.topic = checks.topic
      and messages.msg_id = checks.msg_id
      and checks.state = 'dead_letter'
  left anti join deliveries
    on
      messages.cluster = deliveries.cluster
      and messages.msg_id = deliveries.msg_id
      and checks.consumer_group = deliveries.consumer_group
)

select
  cluster,
  topic,
  msg_id,
  consumer_group,
  outcome_evidence as evidence,
  published_at,
  attempts,
  retries,
  last_attempt_at,
  last_attempt_outcome,
  last_attempt_client,
  decided_at,
  checked_at,
  coalesce(date_trunc('hour', published_at), hour) as hour
from exhausted
union all
select
  cluster,
  topic,
  msg_id,
  consumer_group,
  'proven' as evidence,
  published_at,
  0L as attempts,
  0L as retries,
  cast(null as timestamp) as last_attempt_at,
  cast(null as string) as last_attempt_outcome,
  cast(null as string) as last_attempt_client,
  checked_at as decided_at,
  checked_at,
  hour
from untraced
