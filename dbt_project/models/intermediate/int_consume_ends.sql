-- One row per attempt that has a SubAfter; a record that was stored twice is one row with its number of copies.
with ends as (
  select
    *,
    -- Without a request id, each message is a separate call.
    coalesce(request_id, msg_id) as call_id
  from {{ ref('stg_consume_ends') }}
  where change_seq <= {{ change_seq_to() }} and {{ is_stored_in_hours_of('changed') }}
),

-- A client writes all records of a call into one trace message.
calls as (
  select
    *,
    min(msg_id) over (partition by cluster, trace_message, call_id)
    <=> max(msg_id) over (partition by cluster, trace_message, call_id) as is_only_message
  from ends
),

ranked as (
  select
    *,
    row_number() over (partition by cluster, request_id, msg_id order by record_position) as copy,
    count(*) over (partition by cluster, request_id, msg_id) as copies
  from calls
  where {{ is_message_of('changed', message_key_of_attempt()) }}
)

select * from ranked
where copy = 1
