-- One row per trace message.
with source as (
  select * from {{ source('raw', 'trace_messages') }}
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
    stored_size
  from source
)

select * from renamed
