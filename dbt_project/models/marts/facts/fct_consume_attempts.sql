-- One row per attempt: (cluster, request_id, msg_id), a listener was called with a message; begin and end are paired.
{{ config(partition_by='hour', replaces='message', set='changed', message_key=message_key_of_attempt()) }}
with paired as (
  select
    coalesce(begins.cluster, ends.cluster) as cluster,
    coalesce(begins.request_id, ends.request_id) as request_id,
    coalesce(begins.msg_id, ends.msg_id) as msg_id,
    coalesce(begins.consumer_group, ends.consumer_group) as consumer_group,
    coalesce(begins.client, ends.client) as client,
    begins.begun_at,
    ends.ended_at,
    coalesce(begins.begun_at, ends.recorded_at) as occurred_at,
    coalesce(begins.store_time, ends.store_time) as stored_at,
    coalesce(begins.hour, ends.hour) as hour,
    coalesce(begins.hour_source, ends.hour_source) as hour_source,
    begins.retry_times,
    -- Some clients divide the cost in a SubAfter by the number of messages of the call. Only of Go it is known that it does
    -- not.
    case
      when begins.hour_source = 'event_time' and ends.ended_at is not null
        then cast(unix_millis(ends.ended_at) - unix_millis(begins.begun_at) as double)
      when ends.is_only_message or {{ is_id_of_go('ends.request_id') }} then ends.cost_ms
    end as cost_ms,
    ends.cost_ms as stated_cost_ms,
    ends.is_success,
    ends.context_code,
    coalesce(begins.keys, ends.keys) as keys,
    begins.copies is not null as has_begin,
    ends.copies is not null as has_end,
    coalesce(begins.copies, 0) as begin_copies,
    coalesce(ends.copies, 0) as end_copies,
    begins.layout as begin_layout,
    ends.layout as end_layout,
    greatest(begins.change_seq, ends.change_seq) as change_seq
  from {{ ref('int_consume_begins') }} as begins
  full outer join {{ ref('int_consume_ends') }} as ends
    on
      begins.cluster = ends.cluster
      and begins.request_id <=> ends.request_id
      and begins.msg_id <=> ends.msg_id
),

enriched as (
  select
    paired.*,
    publications.topic,
    publications.msg_id is not null as is_published,
    watermarks.watermark,
    paired.begun_at + {{ limit(['consume_timeout', 'grace']) }} as not_returned_at
  from paired
  left join {{ ref('int_changed_publications') }} as publications
    on paired.cluster = publications.cluster and paired.msg_id = publications.msg_id
  left join {{ ref('int_watermarks') }} as watermarks
    on paired.cluster = watermarks.cluster
),

classified as (
  select
    *,
    case
      when not has_end and watermark >= not_returned_at then 'not_returned'
      when not has_end then 'in_flight'
      when not is_success and context_code = 'exception' then 'exception'
      when not is_success and context_code = 'returned_null' then 'returned_null'
      when not is_success then 'failed'
      when context_code = 'timeout' then 'timeout'
      else 'success'
    end as outcome
  from enriched
)

select
  cluster,
  request_id,
  msg_id,
  consumer_group,
  topic,
  client,
  begun_at,
  ended_at,
  occurred_at,
  stored_at,
  hour,
  hour_source,
  retry_times,
  cost_ms,
  stated_cost_ms,
  is_success,
  context_code,
  outcome,
  keys,
  has_begin,
  has_end,
  is_published,
  begin_copies,
  end_copies,
  begin_layout,
  end_layout,
  case when outcome = 'in_flight' then not_returned_at end as next_review_at,
  change_seq
from classified
