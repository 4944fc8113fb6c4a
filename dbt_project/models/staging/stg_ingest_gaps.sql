-- One row per range of offsets that the broker had deleted before it was read.
with source as (
  select * from {{ source('ops', 'ingest_gaps') }}
),

renamed as (
  select
    cluster,
    trace_topic,
    broker,
    queue_id,
    epoch,
    from_offset,
    to_offset,
    from_time as gap_from,
    to_time as gap_to
  from source
)

select * from renamed
