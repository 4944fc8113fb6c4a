-- One row per message and consumer group that is expected to consume it, of all messages of the hours that this run computes.
with messages as (
  select
    cluster,
    topic,
    msg_id,
    published_at,
    due_at,
    hour
  from {{ rows_in_hours_of('affected', ref('fct_messages')) }}
  where is_published
),

expected as (
  {{ expected_deliveries('messages') }}
)

select * from expected
