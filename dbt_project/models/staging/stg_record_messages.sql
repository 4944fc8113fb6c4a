-- One row a record and message of it: which messages a commit tells of, and in which hours.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type != 'Invalid'
),

renamed as (
  select
    cluster,
    {{ named_msg_ids() }} as msg_ids,
    record_type,
    event_time,
    {{ present('request_id') }} as request_id,
    date_trunc('hour', {{ record_time(told_time()) }}) as hour,
    date_trunc('hour', store_time) as stored_hour,
    change_seq
  from source
),

messages as (
  select
    renamed.*,
    in_record.msg_id
  from renamed
    lateral view outer explode(msg_ids) in_record as msg_id
)

select
  cluster,
  {{ life_of_record() }} as life,
  hour,
  stored_hour,
  change_seq
from messages
