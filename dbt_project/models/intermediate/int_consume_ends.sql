-- One row an attempt that has a SubAfter; a record that was stored twice is one row, its copies counted.
with ends as (
  select
    *,
    -- Not one partition of all that have no request id; and one shuffle for both windows.
    coalesce(request_id, msg_id) as call_id
  from {{ ref('stg_consume_ends') }}
  where change_seq <= {{ change_seq_to() }}
),

ranked as (
  select
    *,
    row_number() over (partition by cluster, call_id, request_id, msg_id order by place) as copy,
    count(*) over (partition by cluster, call_id, request_id, msg_id) as copies,
    min(msg_id) over (partition by cluster, call_id) <=> max(msg_id) over (partition by cluster, call_id) as is_only_message
  from ends
)

select * from ranked
where copy = 1
