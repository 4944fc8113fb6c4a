-- One row per Recall record: a producer recalled a delayed message.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'Recall'
),

renamed as (
  select
    cluster,
    {{ record_position() }} as record_position,
    store_time,
    {{ record_time() }} as recalled_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time() }}) as hour,
    {{ null_if_absent('region') }} as region,
    {{ without_prefixes('group_name') }} as producer_group,
    {{ without_prefixes('topic') }} as topic,
    {{ null_if_absent('msg_id') }} as msg_id,
    success as is_success,
    {{ client() }} as client,
    layout,
    change_seq
  from source
)

select * from renamed
