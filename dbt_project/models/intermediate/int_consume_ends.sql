-- One row an attempt that has a SubAfter; a record that was stored twice is one row, its copies counted.
with ends as (
  select
    *,
    -- Without a request id each message is a call of its own.
    coalesce(request_id, msg_id) as call_id
  from {{ ref('stg_consume_ends') }}
  where change_seq <= {{ change_seq_to() }} and {{ is_stored_in_hours_of('changed') }}
),

-- A client writes the records of a call into one trace message.
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
    row_number() over (partition by cluster, request_id, msg_id order by place) as copy,
    count(*) over (partition by cluster, request_id, msg_id) as copies
  from calls
  where {{ is_message_of('changed', life_of_attempt()) }}
)

select * from ranked
where copy = 1
