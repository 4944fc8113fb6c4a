-- One row per SubBefore record: a listener was called with a message.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'SubBefore'
),

renamed as (
  select
    cluster,
    {{ record_position() }} as record_position,
    store_time,
    {{ record_time() }} as begun_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time() }}) as hour,
    {{ null_if_absent('region') }} as region,
    {{ without_prefixes('group_name') }} as consumer_group,
    {{ null_if_absent('request_id') }} as request_id,
    {{ null_if_absent('msg_id') }} as msg_id,
    retry_times,
    {{ consumer_keys() }} as keys,
    {{ client() }} as client,
    layout,
    change_seq
  from source
)

select * from renamed
