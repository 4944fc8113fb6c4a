-- One row per published message without a SubAfter of an expected group: (cluster, topic, msg_id, expected_group), with what was
-- begun; expected_group is NULL if no group was expected and no SubAfter exists.
{{ config(materialized='working_table', schema='changes') }}
with messages as (
  select
    messages.*,
    watermarks.watermark,
    transactions.transaction_state,
    recalls.msg_id is not null as is_recalled,
    -- The time from which a consumer can receive the message.
    {{ due_at('messages', 'transactions') }} as due_at
  from {{ ref('int_messages') }} as messages
  left join {{ ref('int_watermarks') }} as watermarks
    on messages.cluster = watermarks.cluster
  left join {{ ref('int_transactions') }} as transactions
    on messages.cluster = transactions.cluster and messages.msg_id = transactions.msg_id
  left join {{ ref('int_recalls') }} as recalls
    on messages.cluster = recalls.cluster and messages.msg_id = recalls.msg_id
),

attempts as (
  select
    cluster,
    msg_id,
    consumer_group,
    count_if(has_end) as ended,
    count_if(outcome = 'in_flight') as in_flight,
    count_if(outcome = 'not_returned') as not_returned,
    max(next_review_at) as attempt_review_at
  from {{ affected_attempts() }}
  group by cluster, msg_id, consumer_group
),

attempts_of_any_group as (
  select
    cluster,
    msg_id,
    sum(ended) as ended,
    sum(in_flight) as in_flight,
    sum(not_returned) as not_returned,
    max(attempt_review_at) as attempt_review_at
  from attempts
  group by cluster, msg_id
),

expected as (
  select * from {{ ref('int_expected_deliveries') }}
)

select
  messages.*,
  expected.consumer_group as expected_group,
  coalesce(of_group.in_flight, of_any.in_flight, 0) as in_flight,
  coalesce(of_group.not_returned, of_any.not_returned, 0) as not_returned,
  coalesce(of_group.attempt_review_at, of_any.attempt_review_at) as attempt_review_at
from messages
left join expected
  on
    messages.cluster = expected.cluster
    and messages.topic = expected.topic
    and messages.msg_id = expected.msg_id
left join attempts as of_group
  on
    expected.cluster = of_group.cluster
    and expected.msg_id = of_group.msg_id
    and expected.consumer_group = of_group.consumer_group
left join attempts_of_any_group as of_any
  on
    expected.consumer_group is null
    and messages.cluster = of_any.cluster
    and messages.msg_id = of_any.msg_id
where coalesce(of_group.ended, of_any.ended, 0) = 0
