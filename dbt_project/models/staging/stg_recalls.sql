-- One row a Recall record: a producer took a delayed message back.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'Recall'
),

renamed as (
  select
    cluster,
    {{ place() }} as place,
    store_time,
    {{ record_time() }} as recalled_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time() }}) as hour,
    {{ present('region') }} as region,
    {{ without_prefixes('group_name') }} as producer_group,
    {{ without_prefixes('topic') }} as topic,
    {{ present('msg_id') }} as msg_id,
    success as is_success,
    {{ client() }} as client,
    layout,
    change_seq
  from source
)

select * from renamed
