-- One row per consumer group, topic, broker and period: (cluster, broker, group_name, topic_name, valid_from).
with source as (
  select * from {{ source('broker_facts', 'group_offsets') }}
),

renamed as (
  select
    cluster,
    broker,
    group_name,
    topic as topic_name,
    {{ without_prefixes('group_name') }} as consumer_group,
    {{ without_prefixes('topic') }} as topic,
    queues,
    valid_from,
    valid_to
  from source
  where {{ topic_kind('topic') }} = 'normal'
)

select * from renamed
