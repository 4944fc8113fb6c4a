-- One row per Pub record: a send call that returned. A batch send is one row.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'Pub'
),

renamed as (
  select
    cluster,
    {{ record_position() }} as record_position,
    store_time,
    event_time,
    {{ record_time(send_time()) }} as sent_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time(send_time()) }}) as hour,
    {{ null_if_absent('region') }} as region,
    {{ without_prefixes('group_name') }} as producer_group,
    {{ without_prefixes('topic') }} as topic,
    {{ topic_kind('topic') }} as topic_kind,
    {{ sent_msg_ids() }} as msg_ids,
    {{ is_batch() }} as is_batch,
    {{ null_if_absent('offset_msg_id') }} as offset_msg_ids,
    {{ null_if_absent('tags') }} as tags,
    {{ null_if_absent('keys') }} as keys,
    {{ null_if_absent('store_host') }} as store_host,
    {{ client() }} as client,
    body_length,
    cost_ms,
    msg_type,
    success as is_send_ok,
    layout,
    change_seq
  from source
)

select * from renamed
