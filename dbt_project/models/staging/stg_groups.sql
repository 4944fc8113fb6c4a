-- One row per consumer group, broker and period in which the broker knows it: (cluster, broker, group_name, valid_from).
with source as (
  select * from {{ source('broker_facts', 'groups') }}
),

renamed as (
  select
    cluster,
    broker,
    group_name,
    valid_from,
    valid_to
  from source
)

select * from renamed
