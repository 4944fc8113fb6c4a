-- One row per record of any type: its trace message, and the topic and group in it.
with source as (
  select * from {{ source('events', 'trace_records') }}
),

renamed as (
  select
    cluster,
    trace_topic,
    broker,
    queue_id,
    epoch,
    queue_offset,
    store_time,
    date_trunc('hour', store_time) as hour,
    record_type,
    {{ without_prefixes('topic') }} as topic,
    {{ without_prefixes('group_name') }} as group_name,
    change_seq
  from source
)

select * from renamed
