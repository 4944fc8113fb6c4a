-- One row per send: (cluster, msg_id, offset_msg_id, event_time). Batches are exploded to their messages, and records that the
-- broker stored twice are deduplicated: the first copy stays.
{{ config(partition_by='hour', replaces='message', set='changed', message_key=message_key_of_send()) }}
with ranked as (
  select
    *,
    row_number() over (
      partition by cluster, msg_id, offset_msg_id, event_time order by record_position, batch_index
    ) as copy,
    count(*) over (partition by cluster, msg_id, offset_msg_id, event_time) as copies
  from {{ ref('int_sent_messages') }}
)

select
  cluster,
  msg_id,
  offset_msg_id,
  event_time,
  sent_at,
  store_time as stored_at,
  hour,
  hour_source,
  topic,
  topic_kind,
  producer_group,
  is_send_ok,
  cost_ms,
  msg_type,
  batch_id,
  batch_index,
  batch_size,
  tags,
  keys,
  body_length,
  region,
  store_host,
  client,
  layout,
  copies,
  change_seq
from ranked
where copy = 1
