-- One row per record and message of the record, with the hours of the record.
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
    {{ null_if_absent('request_id') }} as request_id,
    date_trunc('hour', {{ record_time(operation_time()) }}) as hour,
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
  {{ message_key_of_record() }} as message_key,
  hour,
  stored_hour,
  change_seq
from messages
