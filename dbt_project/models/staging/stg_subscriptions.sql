-- One row per subscription on a broker and period: (cluster, broker, consumer_group, topic, valid_from).
with source as (
  select * from {{ source('broker_facts', 'subscriptions') }}
),

renamed as (
  select
    cluster,
    broker,
    {{ without_prefixes('group_name') }} as consumer_group,
    {{ without_prefixes('topic') }} as topic,
    case
      when expression_type = 'SQL92' or class_filter then 'unknown'
      when expression = '*' or cardinality(tags) = 0 then 'all'
      else 'tags'
    end as tag_filter,
    tags,
    valid_from,
    valid_to
  from source
  where {{ topic_kind('topic') }} = 'normal'
)

select * from renamed
