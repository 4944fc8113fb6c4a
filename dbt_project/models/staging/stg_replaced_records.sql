-- One row a record and message of it that a replay replaced: which messages were made of it, and in which hours.
with source as (
  select * from {{ source('ops', 'replaced_records') }}
),

renamed as (
  select
    cluster,
    {{ named_msg_ids() }} as msg_ids,
    record_type,
    event_time,
    {{ present('request_id') }} as request_id,
    date_trunc('hour', coalesce({{ told_time() }}, store_time)) as hour,
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
  case when record_type != 'Invalid' then {{ life_of_record() }} end as life,
  hour,
  stored_hour,
  change_seq
from messages
