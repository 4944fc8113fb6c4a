-- One row per collection and broker: (cluster, broker, observed_at).
with source as (
  select * from {{ source('broker_facts', 'observations') }}
),

renamed as (
  select
    cluster,
    broker,
    observed_at,
    watermark
  from source
)

select * from renamed
