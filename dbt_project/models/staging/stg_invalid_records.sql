-- One row per record that matches no known layout.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'Invalid'
),

renamed as (
  select
    cluster,
    {{ record_position() }} as record_position,
    store_time,
    date_trunc('hour', store_time) as hour,
    {{ client() }} as client,
    invalid_reason,
    raw,
    change_seq
  from source
)

select * from renamed
