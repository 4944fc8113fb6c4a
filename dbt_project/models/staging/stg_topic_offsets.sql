-- One row per topic, broker and period: (cluster, broker, topic_name, valid_from).
with source as (
  select * from {{ source('broker_facts', 'topic_offsets') }}
),

renamed as (
  select
    cluster,
    broker,
    topic as topic_name,
    queues,
    valid_from,
    valid_to
  from source
  where {{ topic_kind('topic') }} = 'normal'
)

select * from renamed
