-- One row per SubAfter record: the listener returned. Many clients write neither time nor group here.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'SubAfter'
),

renamed as (
  select
    cluster,
    {{ record_position() }} as record_position,
    struct(trace_topic, broker, queue_id, epoch, queue_offset) as trace_message,
    store_time,
    case when not coalesce(event_time_suspect, false) then event_time end as ended_at,
    {{ record_time() }} as recorded_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time() }}) as hour,
    {{ without_prefixes('group_name') }} as consumer_group,
    {{ null_if_absent('request_id') }} as request_id,
    {{ null_if_absent('msg_id') }} as msg_id,
    cost_ms,
    success as is_success,
    context_code,
    {{ consumer_keys() }} as keys,
    {{ client() }} as client,
    layout,
    change_seq
  from source
)

select * from renamed
