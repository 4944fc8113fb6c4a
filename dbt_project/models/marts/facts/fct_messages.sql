-- One row per message: (cluster, topic, msg_id), its sends, and a summary of its consumption by all groups. A message with
-- attempts but no Pub is a row with topic NULL.
{{ config(partition_by='hour', replaces='message') }}
with messages as (
  select
    messages.cluster,
    messages.topic,
    messages.msg_id,
    messages.published_at,
    messages.hour_source,
    messages.producer_group,
    messages.msg_type,
    messages.batch_size,
    messages.sends,
    messages.extra_copies,
    transactions.transaction_state,
    {{ due_at('messages', 'transactions') }} as due_at,
    recalls.msg_id is not null as is_recalled
  from {{ ref('int_messages') }} as messages
  left join {{ ref('int_transactions') }} as transactions
    on messages.cluster = transactions.cluster and messages.msg_id = transactions.msg_id
  left join {{ ref('int_recalls') }} as recalls
    on messages.cluster = recalls.cluster and messages.msg_id = recalls.msg_id
),

consumption as (
  select
    cluster,
    topic,
    msg_id,
    consumer_group,
    outcome,
    attempts,
    first_attempt_at,
    succeeded_at,
    next_review_at
  from {{ rows_of_messages('affected', ref('fct_deliveries')) }}
  union all
  -- An attempt without a consumer group belongs to no delivery.
  select
    cluster,
    topic,
    msg_id,
    consumer_group,
    case when outcome in ('success', 'timeout') then 'succeeded' end as outcome,
    1L as attempts,
    occurred_at as first_attempt_at,
    case when outcome in ('success', 'timeout') then ended_at end as succeeded_at,
    next_review_at
  from {{ affected_attempts() }}
  where consumer_group is null and msg_id is not null
),

consumption_by_group as (
  select
    cluster,
    topic,
    msg_id,
    consumer_group,
    count(*) as deliveries,
    count_if(outcome = 'succeeded') as succeeded,
    count_if(outcome in ('exhausted', 'not_returned')) as failed,
    count_if(outcome in ('in_flight', 'retrying')) as open,
    sum(attempts) as attempts,
    min(first_attempt_at) as first_attempt_at,
    min(succeeded_at) as first_success_at,
    max(succeeded_at) as last_success_at,
    min(next_review_at) as next_review_at
  from consumption
  group by cluster, topic, msg_id, consumer_group
),

consumed as (
  select
    cluster,
    topic,
    msg_id,
    count(consumer_group) as consumer_groups,
    count_if(consumer_group is not null and succeeded = deliveries) as groups_succeeded,
    sum(succeeded) as succeeded,
    sum(failed) as failed,
    sum(open) as open,
    sum(attempts) as attempts,
    min(first_attempt_at) as first_attempt_at,
    min(first_success_at) as first_success_at,
    max(last_success_at) as last_success_at,
    min(next_review_at) as next_review_at
  from consumption_by_group
  group by cluster, topic, msg_id
),

unconsumed as (
  select
    cluster,
    topic,
    msg_id,
    -- What the group does not subscribe to was not for it.
    count_if(cause != 'filtered') as missing,
    count_if(is_orphan) as orphaned,
    count_if(cause in ('within_grace', 'delayed_not_due', 'in_flight', 'retrying', 'in_backlog')) as open,
    count_if(cause in ('rolled_back', 'recalled', 'half_uncommitted')) as withheld,
    min(next_review_at) as next_review_at
  from {{ rows_of_messages('affected', ref('orphaned_messages')) }}
  group by cluster, topic, msg_id
),

summarized as (
  select
    coalesce(messages.cluster, consumed.cluster) as cluster,
    messages.topic,
    coalesce(messages.msg_id, consumed.msg_id) as msg_id,
    messages.msg_id is not null as is_published,
    messages.published_at,
    messages.hour_source,
    messages.producer_group,
    messages.msg_type,
    messages.batch_size,
    messages.transaction_state,
    messages.due_at,
    coalesce(messages.sends, 0) as sends,
    coalesce(messages.extra_copies, 0) as extra_copies,
    coalesce(messages.is_recalled, false) as is_recalled,
    coalesce(consumed.consumer_groups, 0) as consumer_groups,
    coalesce(consumed.groups_succeeded, 0) as groups_succeeded,
    coalesce(consumed.attempts, 0) as attempts,
    coalesce(consumed.succeeded, 0) as succeeded,
    coalesce(consumed.failed, 0) as failed,
    coalesce(consumed.open, 0) + coalesce(unconsumed.open, 0) as open,
    coalesce(unconsumed.missing, 0) as missing,
    coalesce(unconsumed.orphaned, 0) as orphaned,
    coalesce(unconsumed.withheld, 0) as withheld,
    consumed.first_attempt_at,
    consumed.first_success_at,
    consumed.last_success_at,
    consumed.next_review_at as consumed_review_at,
    unconsumed.next_review_at as unconsumed_review_at
  from messages
  full outer join consumed
    on messages.cluster = consumed.cluster and messages.topic <=> consumed.topic and messages.msg_id = consumed.msg_id
  left join unconsumed
    on messages.cluster = unconsumed.cluster and messages.topic <=> unconsumed.topic and messages.msg_id = unconsumed.msg_id
),

classified as (
  select
    *,
    least(consumed_review_at, unconsumed_review_at) as next_review_at
  from summarized
)

select
  cluster,
  topic,
  msg_id,
  case
    when not is_published then 'unpublished'
    when orphaned > 0 then 'orphaned'
    when failed > 0 then 'failed'
    when open > 0 then 'open'
    when withheld > 0 and attempts = 0 then 'withheld'
    when missing > 0 or succeeded = 0 then 'untraced'
    else 'consumed'
  end as state,
  is_published,
  published_at,
  due_at,
  date_trunc('hour', coalesce(published_at, first_attempt_at)) as hour,
  hour_source,
  producer_group,
  msg_type,
  batch_size,
  sends,
  extra_copies,
  coalesce(msg_type = 'half', false) or transaction_state is not null as is_transactional,
  case
    when transaction_state is not null then transaction_state
    when msg_type = 'half' then 'undecided'
  end as transaction_state,
  coalesce(msg_type = 'delay', false) as is_delayed,
  is_recalled,
  consumer_groups,
  groups_succeeded,
  orphaned as groups_orphaned,
  attempts,
  first_attempt_at,
  first_success_at,
  last_success_at,
  next_review_at
from classified
