-- One row per delivery: (cluster, msg_id, consumer_group), its attempts combined; for a broadcast group, one row per client.
{{ config(partition_by='hour', replaces='message') }}
with timed as (
  select
    *,
    min(occurred_at) over (partition by cluster, msg_id, consumer_group) as delivered_from
  from {{ affected_attempts() }}
  where consumer_group is not null and msg_id is not null
),

attempts as (
  select
    attempts.*,
    broadcast.consumer_group is not null as is_broadcast,
    case when broadcast.consumer_group is not null then attempts.client end as broadcast_client,
    -- A cost of years comes from a broken clock; it must not overflow a timestamp.
    coalesce(
      attempts.ended_at,
      case
        when attempts.stated_cost_ms between 0 and 100000000000
          then timestamp_millis(unix_millis(attempts.begun_at) + cast(attempts.stated_cost_ms as bigint))
      end
    ) as finished_at,
    attempts.ended_at is not null or (attempts.has_begin and attempts.hour_source = 'event_time') as is_client_time,
    -- Without a SubBefore it is unknown: the attempt comes after the earlier ones.
    coalesce(
      attempts.retry_times,
      max(attempts.retry_times) over (
        partition by
          attempts.cluster,
          attempts.msg_id,
          attempts.consumer_group,
          case when broadcast.consumer_group is not null then attempts.client end
        order by attempts.occurred_at
      ),
      0
    ) as attempt_order
  from timed as attempts
  left join {{ ref('int_broadcast_groups') }} as broadcast
    on
      attempts.cluster = broadcast.cluster
      and attempts.consumer_group = broadcast.consumer_group
      and attempts.delivered_from >= broadcast.broadcast_from
      and attempts.delivered_from < broadcast.broadcast_to
),

aggregated as (
  select
    cluster,
    msg_id,
    consumer_group,
    broadcast_client,
    any_value(topic) as topic,
    any_value(is_broadcast) as is_broadcast,
    count(*) as attempts,
    count_if(has_end) as attempts_with_end,
    collect_list(retry_times) as all_retry_times,
    max(retry_times) as max_retry_times_seen,
    count_if(outcome in ('success', 'timeout')) as successes,
    min(
      struct(
        attempt_order as retry_times,
        occurred_at,
        request_id,
        outcome,
        begun_at,
        has_begin,
        hour,
        hour_source,
        client
      )
    ) as first_attempt,
    max(struct(attempt_order as retry_times, occurred_at, request_id, outcome, client)) as last_attempt,
    max(occurred_at) as last_begun_at,
    max(coalesce(finished_at, occurred_at)) as last_seen_at,
    min(struct(finished_at, is_client_time)) filter (
      where outcome in ('success', 'timeout') and finished_at is not null
    ) as first_success,
    sum(greatest(begin_copies - 1, 0) + greatest(end_copies - 1, 0)) as extra_copies,
    max(next_review_at) as attempts_review_at,
    max(change_seq) as change_seq
  from attempts
  group by cluster, msg_id, consumer_group, broadcast_client
),

history as (
  select
    cluster,
    min(first_attempt_at) as history_from
  from {{ ref('int_consume_hours') }}
  group by cluster
),

enriched as (
  select
    aggregated.*,
    publications.msg_id is not null as is_published,
    publications.published_at,
    publications.producer_client,
    coalesce(publications.sends, 1) as sends,
    publications.hour_source = 'event_time' as is_published_by_client_time,
    watermarks.watermark,
    history.history_from,
    case when aggregated.is_broadcast then 0 else coalesce(limits.max_retry_times, {{ max_retry_times() }}) end
      as max_retry_times,
    checks.checked_at,
    checks.state = 'dead_letter' as is_dead_letter,
    checks.state = 'retrying' as is_waiting
  from aggregated
  left join {{ ref('int_affected_publications') }} as publications
    on aggregated.cluster = publications.cluster and aggregated.msg_id = publications.msg_id
  left join {{ ref('int_watermarks') }} as watermarks
    on aggregated.cluster = watermarks.cluster
  left join history
    on aggregated.cluster = history.cluster
  left join {{ ref('group_retry_limits') }} as limits
    on aggregated.cluster = limits.cluster and aggregated.consumer_group = limits.consumer_group
  -- An attempt that came later corrects a look-up.
  left join {{ ref('int_message_checks') }} as checks
    on
      aggregated.cluster = checks.cluster
      and publications.topic = checks.topic
      and aggregated.msg_id = checks.msg_id
      and aggregated.consumer_group = checks.consumer_group
      and aggregated.last_begun_at <= checks.checked_at
      and not aggregated.is_broadcast
),

limited as (
  select
    *,
    last_attempt.retry_times >= max_retry_times and not coalesce(is_waiting, false) as is_last_retry,
    greatest(last_seen_at, case when is_waiting then checked_at end) + {{ limit(['max_delay', 'grace']) }} as given_up_at
  from enriched
),

classified as (
  select
    *,
    case
      when successes > 0 then 'succeeded'
      when is_dead_letter then 'exhausted'
      when last_attempt.outcome in ('in_flight', 'not_returned') then last_attempt.outcome
      when is_last_retry or watermark >= given_up_at then 'exhausted'
      else 'retrying'
    end as outcome
  from limited
)

select
  cluster,
  msg_id,
  consumer_group,
  broadcast_client,
  topic,
  is_broadcast,
  outcome,
  case when outcome = 'exhausted' then case when is_dead_letter then 'proven' else 'inferred' end end as outcome_evidence,
  case
    when not first_attempt.has_begin or first_attempt.retry_times > 0 or first_attempt.outcome = 'in_flight' then null
    else first_attempt.outcome = 'success'
  end as is_first_attempt_success,
  attempts,
  attempts_with_end,
  case when is_broadcast then 0 else coalesce(max_retry_times_seen, 0) end as retries,
  -- Each send of the message is delivered once per retry number.
  case
    when is_broadcast then 0
    else aggregate(
      array_distinct(all_retry_times),
      0L,
      (total, number) -> total + greatest(size(filter(all_retry_times, each -> each = number)) - sends, 0L)
    )
  end as duplicates,
  extra_copies,
  max_retry_times,
  first_attempt.client,
  first_attempt.occurred_at as first_attempt_at,
  last_attempt.occurred_at as last_attempt_at,
  last_attempt.outcome as last_attempt_outcome,
  last_attempt.client as last_attempt_client,
  first_success.finished_at as succeeded_at,
  case outcome
    when 'succeeded' then coalesce(first_success.finished_at, last_attempt.occurred_at)
    when 'not_returned' then last_attempt.occurred_at + {{ limit(['consume_timeout', 'grace']) }}
    when 'exhausted'
      then
        least(
          case when is_dead_letter then checked_at end,
          case
            when last_attempt.outcome in ('in_flight', 'not_returned') then null
            when is_last_retry then last_seen_at
            else given_up_at
          end
        )
  end as decided_at,
  first_attempt.hour,
  first_attempt.hour_source,
  is_published,
  published_at,
  producer_client,
  -- Only the clocks of two clients are compared, never a client's clock with a broker's.
  case
    when is_published_by_client_time and first_attempt.hour_source = 'event_time'
      then unix_millis(first_attempt.begun_at) - unix_millis(published_at)
  end as queue_wait_ms,
  case
    when is_published_by_client_time and first_success.is_client_time
      then unix_millis(first_success.finished_at) - unix_millis(published_at)
  end as end_to_end_ms,
  case
    when is_published then null
    when first_attempt.occurred_at < history_from + {{ limit(['retry_horizon', 'max_delay']) }} then 'before_history'
    when msg_id like '01%' and length(msg_id) = 34 then 'grpc_producer'
    else 'untraced_send'
  end as unpublished_cause,
  case
    when outcome = 'in_flight' then attempts_review_at
    when outcome = 'retrying' then given_up_at
  end as next_review_at,
  change_seq
from classified
