-- One row per message (cluster, topic, msg_id), however often it was sent; the first send describes it. Sends to retry and
-- dead-letter topics are left out: their messages were published before.
{{ config(materialized='working_table', schema='changes') }}
with sends as (
  select
    cluster,
    topic,
    msg_id,
    struct(
      sent_at,
      hour_source,
      hour,
      producer_group,
      msg_type,
      batch_size,
      tags,
      keys,
      store_host,
      offset_msg_id,
      client
    ) as send,
    copies
  from {{ rows_of_messages('affected', ref('fct_sends'), message_key_of_send()) }}
  where msg_id is not null and topic_kind = 'normal'
),

messages as (
  select
    cluster,
    topic,
    msg_id,
    min(send) as first_send,
    count(*) as sends,
    sum(copies - 1) as extra_copies
  from sends
  group by cluster, topic, msg_id
)

select
  cluster,
  topic,
  msg_id,
  first_send.sent_at as published_at,
  first_send.hour_source,
  first_send.hour,
  first_send.producer_group,
  first_send.msg_type,
  first_send.batch_size,
  first_send.tags,
  first_send.keys,
  first_send.store_host,
  first_send.client as producer_client,
  sends,
  extra_copies
from messages
