-- One row per consumer group, broker and period: (cluster, broker, group_name, valid_from).
with source as (
  select * from {{ source('broker_facts', 'consumers') }}
),

renamed as (
  select
    cluster,
    broker,
    group_name,
    online as is_online,
    message_model,
    languages,
    versions,
    connections,
    valid_from,
    valid_to
  from source
)

select * from renamed
