-- One row a SubBefore record: a listener was called with a message.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'SubBefore'
),

renamed as (
  select
    cluster,
    {{ place() }} as place,
    store_time,
    {{ record_time() }} as begun_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time() }}) as hour,
    {{ present('region') }} as region,
    {{ without_prefixes('group_name') }} as consumer_group,
    {{ present('request_id') }} as request_id,
    {{ present('msg_id') }} as msg_id,
    retry_times,
    {{ consumer_keys() }} as keys,
    {{ client() }} as client,
    layout,
    change_seq
  from source
)

select * from renamed
