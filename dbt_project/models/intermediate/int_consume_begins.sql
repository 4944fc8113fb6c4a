-- One row per attempt that has a SubBefore; a record that was stored twice is one row with its number of copies.
with ranked as (
  select
    *,
    row_number() over (partition by cluster, request_id, msg_id order by record_position) as copy,
    count(*) over (partition by cluster, request_id, msg_id) as copies
  from {{ ref('stg_consume_begins') }}
  where
    change_seq <= {{ change_seq_to() }}
    and {{ is_stored_in_hours_of('changed') }}
    and {{ is_message_of('changed', message_key_of_attempt()) }}
)

select * from ranked
where copy = 1
