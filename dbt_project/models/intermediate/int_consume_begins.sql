-- One row an attempt that has a SubBefore; a record that was stored twice is one row, its copies counted.
with ranked as (
  select
    *,
    row_number() over (partition by cluster, request_id, msg_id order by place) as copy,
    count(*) over (partition by cluster, request_id, msg_id) as copies
  from {{ ref('stg_consume_begins') }}
  where change_seq <= {{ change_seq_to() }}
)

select * from ranked
where copy = 1
