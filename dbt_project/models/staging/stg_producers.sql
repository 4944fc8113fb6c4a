-- One row per producer group, broker and period: (cluster, broker, group_name, valid_from).
with source as (
  select * from {{ source('broker_facts', 'producers') }}
),

renamed as (
  select
    cluster,
    broker,
    group_name,
    trace_of,
    trace_role,
    languages,
    versions,
    connections,
    valid_from,
    valid_to
  from source
)

select * from renamed
