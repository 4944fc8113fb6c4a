-- One row per valid record and identifier: each message id, broker's id, transaction id and user key of the record, with the
-- hours of the record.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type != 'Invalid'
),

renamed as (
  select
    cluster,
    array_distinct(
      filter(
        concat(
          coalesce({{ named_msg_ids() }}, array()),
          coalesce(split({{ null_if_absent('offset_msg_id') }}, ','), array()),
          array({{ null_if_absent('transaction_id') }}),
          coalesce(split({{ consumer_keys() }}, ' '), array())
        ),
        id -> id != ''
      )
    ) as identifiers,
    date_trunc('hour', {{ record_time(operation_time()) }}) as hour,
    date_trunc('hour', store_time) as stored_hour,
    change_seq
  from source
)

select
  renamed.cluster,
  in_record.identifier,
  renamed.hour,
  renamed.stored_hour,
  renamed.change_seq
from renamed
  lateral view explode(identifiers) in_record as identifier
