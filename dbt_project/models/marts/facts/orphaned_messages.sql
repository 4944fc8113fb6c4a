-- One row per published message without a SubAfter of an expected group: (cluster, topic, msg_id, expected_group);
-- expected_group is NULL if no group was expected and no SubAfter exists.
{{ config(partition_by='hour', replaces='message') }}
with unconsumed as (
  select * from {{ ref('int_unconsumed_messages') }}
),

-- The consumer records of a message may be in the gap: see can_be_in_gap in macros/messages.sql.
in_gaps as (
  select distinct
    unconsumed.cluster,
    unconsumed.topic,
    unconsumed.msg_id
  from unconsumed
  inner join {{ ref('int_ingest_gaps') }} as gaps
    on
      unconsumed.cluster = gaps.cluster
      and {{ can_be_in_gap('unconsumed', 'gaps.gap_from', 'gaps.gap_to') }}
),

-- What the subscriptions of the group at the time of publication say; the brokers may have several. Where no group is expected,
-- of each group that subscribes.
by_subscription as (
  select
    unconsumed.cluster,
    unconsumed.topic,
    unconsumed.msg_id,
    unconsumed.expected_group,
    subscriptions.consumer_group,
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
      when bool_or(subscriptions.tag_filter = 'unknown') then 'filter_unknown'
      -- The Pub of a batch has no tags, although its messages may have some, and does not show that it is one of one message.
      when bool_or(subscriptions.tag_filter = 'tags' and unconsumed.tags is null)
        then 'tags_unknown'
      else 'filtered'
    end as verdict
  from unconsumed
  inner join {{ ref('int_subscriptions') }} as subscriptions
    on
      unconsumed.cluster = subscriptions.cluster
      and unconsumed.topic = subscriptions.topic
      and coalesce(unconsumed.expected_group, subscriptions.consumer_group) = subscriptions.consumer_group
      and unconsumed.published_at >= subscriptions.subscribed_from
      and unconsumed.published_at < subscriptions.subscribed_to
  group by
    unconsumed.cluster, unconsumed.topic, unconsumed.msg_id, unconsumed.expected_group, subscriptions.consumer_group
),

-- Messages that a later subscription of the group, seen until their look-up, does not include, or may not: the group may have
-- had it when it reached them.
excluded_since as (
  select distinct
    unconsumed.cluster,
    unconsumed.topic,
    unconsumed.msg_id,
    unconsumed.expected_group
  from unconsumed
  inner join {{ ref('int_message_checks') }} as checks
    on
      unconsumed.cluster = checks.cluster
      and unconsumed.topic = checks.topic
      and unconsumed.msg_id = checks.msg_id
      and unconsumed.expected_group = checks.consumer_group
  inner join {{ ref('int_subscriptions') }} as subscriptions
    on
      unconsumed.cluster = subscriptions.cluster
      and unconsumed.topic = subscriptions.topic
      and unconsumed.expected_group = subscriptions.consumer_group
      and unconsumed.published_at < subscriptions.subscribed_from
      and checks.checked_at >= subscriptions.subscribed_from
  where
    subscriptions.tag_filter != 'all'
    and not (subscriptions.tag_filter = 'tags' and coalesce(array_contains(subscriptions.tags, unconsumed.tags), false))
),

-- Messages that no group is expected to consume, of a group that reads the topic without a trace: by its subscription, or by a
-- look-up.
untraced as (
  select
    by_subscription.cluster,
    by_subscription.topic,
    by_subscription.msg_id
  from by_subscription
  left anti join {{ ref('int_message_checks') }} as checks
    on
      by_subscription.verdict != 'wanted'
      and checks.state = 'filtered'
      and by_subscription.cluster = checks.cluster
      and by_subscription.topic = checks.topic
      and by_subscription.msg_id = checks.msg_id
      and by_subscription.consumer_group = checks.consumer_group
  where by_subscription.expected_group is null and by_subscription.verdict != 'filtered'
  union
  select
    unconsumed.cluster,
    unconsumed.topic,
    unconsumed.msg_id
  from unconsumed
  inner join {{ ref('int_message_checks') }} as checks
    on
      unconsumed.cluster = checks.cluster
      and unconsumed.topic = checks.topic
      and unconsumed.msg_id = checks.msg_id
  left join by_subscription
    on
      by_subscription.expected_group is null
      and checks.cluster = by_subscription.cluster
      and checks.topic = by_subscription.topic
      and checks.msg_id = by_subscription.msg_id
      and checks.consumer_group = by_subscription.consumer_group
  where
    unconsumed.expected_group is null
    and (
      checks.state in ('dead_letter', 'retrying')
      or (
        by_subscription.verdict is null
        and (
          checks.state in ('consumed', 'consumed_or_filtered')
          or (checks.state in ('not_consumed', 'offline') and checks.is_passed)
        )
      )
    )
),

known as (
  select
    unconsumed.*,
    in_gaps.msg_id is not null as is_in_gap,
    untraced.msg_id is not null as is_read_untraced,
    by_subscription.verdict,
    unconsumed.in_flight + unconsumed.not_returned > 0 as is_begun,
    checks.checked_at,
    checks.tracing_clients,
    checks.is_dropped_repeatedly,
    -- Where the broker does not say it: a group that traces now would have traced the message.
    case checks.skip_evidence
      when 'not_pulled' then true
      when 'not_pulled_moved_again' then progress.last_attempt_at >= unconsumed.published_at
      when 'pull_offset_unknown'
        then
          unconsumed.published_at between progress.first_attempt_at and progress.last_attempt_at
          and not (unconsumed.batch_size > 1 or coalesce(checks.is_of_batch, false))
    end as is_skipped,
    unconsumed.batch_size > 1 or coalesce(checks.is_of_batch, false) as is_of_batch,
    case when checks.state = 'not_delivered' then checks.due_at end as broker_due_at,
    checks.checked_at + {{ limit(['max_delay', 'grace']) }} as retried_to,
    progress.cluster is not null and progress.deleted_at is null as is_progress_known,
    progress.deleted_at is not null as is_group_deleted,
    progress.passed_to,
    progress.not_reached_from,
    progress.first_attempt_at,
    progress.last_attempt_at,
    progress.messages_behind,
    coalesce(hours.ends_without_begin + hours.begins_without_end > 0, false) as is_trace_incomplete,
    -- What the look-up of the message says now; NULL: nothing. The subscription may have changed since the publication: it is not
    -- known which of both the group had when it reached the message.
    case
      when checks.state = 'dead_letter' then 'dead_letter'
      when checks.state = 'retrying'
        then
          case
            when unconsumed.watermark < checks.checked_at + {{ limit(['max_delay', 'grace']) }} then 'retrying'
            else 'passed'
          end
      when unconsumed.in_flight + unconsumed.not_returned > 0 then null
      when checks.state = 'recalled' then 'recalled'
      when checks.state = 'filtered' then case when by_subscription.verdict <=> 'wanted' then 'filter_unknown' else 'filtered' end
      when
        checks.state in ('not_consumed', 'offline') and not checks.is_passed
        and not by_subscription.verdict <=> 'filter_unknown'
        then 'not_reached'
      when
        checks.state in ('consumed', 'consumed_or_filtered', 'not_consumed', 'offline')
        and by_subscription.verdict in ('filtered', 'filter_unknown')
        then by_subscription.verdict
      when checks.state in ('consumed', 'consumed_or_filtered', 'not_consumed', 'offline') and excluded_since.msg_id is not null
        then 'filter_unknown'
      when checks.state in ('not_consumed', 'offline') then 'passed'
      when checks.state = 'consumed_or_filtered' and not by_subscription.verdict <=> 'wanted' then 'filter_unknown'
      when checks.state in ('consumed', 'consumed_or_filtered') then 'consumed'
      when checks.held_as = 'transaction' then 'half_uncommitted'
      when checks.state = 'not_delivered' and unconsumed.watermark < checks.due_at then 'delayed_not_due'
      when checks.state = 'broadcasting' then 'broadcasting'
      when not checks.is_stored then 'gone'
    end as look_up
  from unconsumed
  left join in_gaps
    on
      unconsumed.cluster = in_gaps.cluster
      and unconsumed.topic = in_gaps.topic
      and unconsumed.msg_id = in_gaps.msg_id
  left join untraced
    on
      unconsumed.expected_group is null
      and unconsumed.cluster = untraced.cluster
      and unconsumed.topic = untraced.topic
      and unconsumed.msg_id = untraced.msg_id
  left join by_subscription
    on
      unconsumed.cluster = by_subscription.cluster
      and unconsumed.topic = by_subscription.topic
      and unconsumed.msg_id = by_subscription.msg_id
      and unconsumed.expected_group = by_subscription.expected_group
  left join excluded_since
    on
      unconsumed.cluster = excluded_since.cluster
      and unconsumed.topic = excluded_since.topic
      and unconsumed.msg_id = excluded_since.msg_id
      and unconsumed.expected_group = excluded_since.expected_group
  left join {{ ref('int_group_progress') }} as progress
    on
      unconsumed.cluster = progress.cluster
      and unconsumed.topic = progress.topic
      and unconsumed.expected_group = progress.consumer_group
  left join {{ ref('int_message_checks') }} as checks
    on
      unconsumed.cluster = checks.cluster
      and unconsumed.topic = checks.topic
      and unconsumed.msg_id = checks.msg_id
      and unconsumed.expected_group = checks.consumer_group
  left join {{ rows_in_hours_of('affected', ref('int_consume_hours')) }} as hours
    on
      unconsumed.cluster = hours.cluster
      and unconsumed.topic = hours.topic
      and unconsumed.expected_group = hours.consumer_group
      and unconsumed.hour = hours.hour
),

answered as (
  select
    *,
    greatest(due_at, broker_due_at) as deliverable_at,
    coalesce(
      look_up in ('recalled', 'filtered', 'filter_unknown', 'half_uncommitted', 'delayed_not_due', 'retrying'), false
    ) as is_answered,
    coalesce(look_up in ('consumed', 'passed', 'not_reached', 'dead_letter'), false) as is_delivered,
    -- A message that the group may not subscribe to was perhaps not for it.
    coalesce(
      look_up = 'not_reached'
      or (verdict = 'wanted' and not_reached_from + {{ limit('grace') }} <= published_at),
      false
    ) as is_not_reached
  from known
),

classified as (
  select
    *,
    case
      when is_in_gap then 'trace_gap'
      when transaction_state = 'rollback' then 'rolled_back'
      when is_recalled then 'recalled'
      when is_answered then look_up
      -- With an EndTransaction a message is transactional whatever its msg_type is.
      when
        coalesce(transaction_state, case when msg_type = 'half' then 'unknown' end) = 'unknown'
        and not is_delivered
        then 'half_uncommitted'
      when verdict != 'wanted' and not is_begun and not is_delivered
        then case when verdict = 'tags_unknown' then 'filter_unknown' else verdict end
      when msg_type = 'delay' and watermark < due_at then 'delayed_not_due'
      when
        is_of_batch and not is_begun and not coalesce(is_skipped, false)
        and not coalesce(look_up in ('not_reached', 'dead_letter'), false)
        then 'untraced_batch'
      when watermark < deliverable_at + {{ limit('grace') }} then 'within_grace'
      when expected_group is null and not is_begun
        then case when is_read_untraced then 'untraced_consumer' else 'no_traced_group' end
      when look_up = 'dead_letter' then 'dead_letter'
      when in_flight > 0 then 'in_flight'
      when not_returned > 0 then 'not_returned'
      when
        look_up in ('consumed', 'passed')
        or (is_progress_known and passed_to >= deliverable_at + {{ limit('grace') }} and not look_up <=> 'not_reached')
        then
          case
            when is_skipped then 'skipped'
            when last_attempt_at < published_at or first_attempt_at > published_at or tracing_clients = 'some'
              then 'untraced_consumer'
            when look_up = 'consumed' and is_trace_incomplete then 'lost_trace'
            else 'passed_untraced'
          end
      when is_group_deleted and (look_up <=> 'not_reached' or not_reached_from + {{ limit('grace') }} <= published_at)
        then 'group_deleted'
      when look_up in ('broadcasting', 'gone') then look_up
      when not is_progress_known and not look_up <=> 'not_reached' then 'filtered_or_lost'
      when watermark < deliverable_at + {{ limit('backlog') }} then 'in_backlog'
      else 'backlog_overdue'
    end as cause
  from answered
),

counted as (
  select
    *,
    cause in (
      'not_returned', 'dead_letter', 'skipped', 'lost_trace', 'passed_untraced', 'backlog_overdue', 'broadcasting', 'gone',
      'filtered_or_lost'
    ) as counts_in_orphan_rate
  from classified
)

select
  cluster,
  topic,
  msg_id,
  expected_group,
  cause,
  cause = 'no_traced_group' or counts_in_orphan_rate as is_orphan,
  counts_in_orphan_rate,
  case
    when cause in ('rolled_back', 'recalled', 'filtered', 'in_flight', 'dead_letter', 'retrying', 'skipped', 'group_deleted')
      then 'proven'
    when cause in ('half_uncommitted', 'delayed_not_due') and is_answered then 'proven'
    when cause in ('in_backlog', 'backlog_overdue') and is_not_reached then 'proven'
    when cause = 'passed_untraced' and look_up = 'consumed' and last_attempt_at >= published_at and is_dropped_repeatedly
      then 'proven'
    when
      cause in (
        'half_uncommitted', 'delayed_not_due', 'untraced_batch', 'not_returned', 'in_backlog', 'backlog_overdue',
        'untraced_consumer', 'lost_trace', 'passed_untraced'
      )
      then 'inferred'
    else 'unknown'
  end as evidence,
  published_at,
  due_at,
  broker_due_at,
  checked_at,
  case when cause in ('in_backlog', 'backlog_overdue') then {{ one_digit('messages_behind') }} end as messages_behind,
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
    when cause = 'delayed_not_due' then case when is_answered then broker_due_at else due_at end
    when cause = 'within_grace' then deliverable_at + {{ limit('grace') }}
    when cause = 'in_backlog' then deliverable_at + {{ limit('backlog') }}
    when cause = 'in_flight' then attempt_review_at
    when cause = 'retrying' then retried_to
  end as next_review_at
from counted
