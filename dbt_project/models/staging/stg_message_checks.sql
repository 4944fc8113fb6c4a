-- One row per look-up of a message and consumer group: (cluster, topic, msg_id, consumer_group, checked_at).
with source as (
  select * from {{ source('broker_facts', 'message_checks') }}
),

renamed as (
  select
    cluster,
    broker,
    topic,
    msg_id,
    consumer_group,
    checked_at,
    is_stored,
    held_as,
    is_of_batch,
    due_at,
    queue_id,
    queue_offset,
    stored_at,
    state
  from source
  -- What was not answered says nothing.
  where consumer_group is not null and (state != 'unknown' or not is_stored)
)

select * from renamed
