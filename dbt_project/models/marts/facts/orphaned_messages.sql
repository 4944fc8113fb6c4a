-- One row per published message without a SubAfter of an expected group: (cluster, topic, msg_id, expected_group);
-- expected_group is NULL if no group was expected and no SubAfter exists.
{{ config(partition_by='hour', replaces='message') }}
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
),

unconsumed as (
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
),

-- The consumer records of a message may be in the gap: see can_be_in_gap in macros/messages.sql.
in_gaps as (
  select distinct
    unconsumed.cluster,
    unconsumed.msg_id
  from unconsumed
  inner join {{ ref('int_ingest_gaps') }} as gaps
    on
      unconsumed.cluster = gaps.cluster
      and {{ can_be_in_gap('unconsumed', 'gaps.gap_from', 'gaps.gap_to') }}
),

-- What the subscriptions of the group at the time of publication say; the brokers may have several.
by_subscription as (
  select
    unconsumed.cluster,
    unconsumed.topic,
    unconsumed.msg_id,
    unconsumed.expected_group,
    case
      when
        bool_or(
          subscriptions.tag_filter = 'all'
          or (
            subscriptions.tag_filter = 'tags'
            and coalesce(array_contains(subscriptions.tags, unconsumed.tags), false)
          )
        )
        then 'wanted'
      -- The Pub of a batch has no tags, although its messages may have some.
      when
        bool_or(
          subscriptions.tag_filter = 'unknown'
          or (subscriptions.tag_filter = 'tags' and unconsumed.tags is null and unconsumed.batch_size > 1)
        )
        then 'filter_unknown'
      else 'filtered'
    end as verdict
  from unconsumed
  inner join {{ ref('int_subscriptions') }} as subscriptions
    on
      unconsumed.cluster = subscriptions.cluster
      and unconsumed.topic = subscriptions.topic
      and unconsumed.expected_group = subscriptions.consumer_group
      and unconsumed.published_at >= subscriptions.subscribed_from
      and unconsumed.published_at < subscriptions.subscribed_to
  group by unconsumed.cluster, unconsumed.topic, unconsumed.msg_id, unconsumed.expected_group
),

classified as (
  select
    unconsumed.*,
    case
      when in_gaps.msg_id is not null then 'trace_gap'
      when unconsumed.transaction_state = 'rollback' then 'rolled_back'
      when unconsumed.is_recalled then 'recalled'
      -- With an EndTransaction a message is transactional whatever its msg_type is.
      when coalesce(unconsumed.transaction_state, case when unconsumed.msg_type = 'half' then 'unknown' end) = 'unknown'
        then 'half_uncommitted'
      when by_subscription.verdict != 'wanted' and unconsumed.in_flight + unconsumed.not_returned = 0
        then by_subscription.verdict
      when unconsumed.msg_type = 'delay' and unconsumed.watermark < unconsumed.due_at then 'delayed_not_due'
      when unconsumed.batch_size > 1 and unconsumed.in_flight + unconsumed.not_returned = 0 then 'untraced_batch'
      when unconsumed.watermark < unconsumed.due_at + {{ limit('grace') }} then 'within_grace'
      when unconsumed.expected_group is null and unconsumed.in_flight + unconsumed.not_returned = 0
        then 'no_traced_group'
      when unconsumed.in_flight > 0 then 'in_flight'
      when unconsumed.not_returned > 0 then 'not_returned'
      when progress.cluster is null then 'filtered_or_lost'
      when progress.passed_to >= unconsumed.due_at + {{ limit('grace') }}
        then case when progress.last_attempt_at < unconsumed.published_at then 'untraced_consumer' else 'passed_untraced' end
      when unconsumed.watermark < unconsumed.due_at + {{ limit('backlog') }} then 'in_backlog'
      else 'backlog_overdue'
    end as cause,
    -- A message that the group may not subscribe to was perhaps not for it.
    coalesce(
      by_subscription.verdict = 'wanted'
      and progress.not_reached_from + {{ limit('grace') }} <= unconsumed.published_at,
      false
    ) as is_not_reached
  from unconsumed
  left join in_gaps
    on unconsumed.cluster = in_gaps.cluster and unconsumed.msg_id = in_gaps.msg_id
  left join by_subscription
    on
      unconsumed.cluster = by_subscription.cluster
      and unconsumed.topic = by_subscription.topic
      and unconsumed.msg_id = by_subscription.msg_id
      and unconsumed.expected_group = by_subscription.expected_group
  left join {{ ref('int_group_progress') }} as progress
    on
      unconsumed.cluster = progress.cluster
      and unconsumed.topic = progress.topic
      and unconsumed.expected_group = progress.consumer_group
)

select
  cluster,
  topic,
  msg_id,
  expected_group,
  cause,
  cause = 'no_traced_group' or {{ is_in_orphan_rate('cause') }} as is_orphan,
  {{ is_in_orphan_rate('cause') }} as counts_in_orphan_rate,
  case
    when cause in ('rolled_back', 'recalled', 'filtered', 'in_flight') then 'proven'
    when cause in ('in_backlog', 'backlog_overdue') and is_not_reached then 'proven'
    when
      cause in (
        'half_uncommitted', 'delayed_not_due', 'untraced_batch', 'not_returned', 'in_backlog', 'backlog_overdue',
        'untraced_consumer', 'passed_untraced'
      )
      then 'inferred'
    else 'unknown'
  end as evidence,
  published_at,
  due_at,
  hour,
  hour_source,
  producer_group,
  msg_type,
  batch_size,
  sends,
  tags,
  keys,
  store_host,
  case
    when cause = 'delayed_not_due' then due_at
    when cause = 'within_grace' then due_at + {{ limit('grace') }}
    when cause = 'in_backlog' then due_at + {{ limit('backlog') }}
    when cause = 'in_flight' then attempt_review_at
  end as next_review_at
from classified
