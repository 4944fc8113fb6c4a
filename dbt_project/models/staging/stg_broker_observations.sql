-- One row per collection and broker: (cluster, broker, observed_at).
with source as (
  select * from {{ source('broker_facts', 'observations') }}
),

renamed as (
  select
    cluster,
    broker,
    observed_at,
    watermark,
    reached and exists(requests, request -> request.code = 43 and request.answered > 0) as is_group_offsets_known,
    -- Topics whose ends are unknown; NULL: all. A broker that has no topics is asked for the ends of none.
    case
      when reached and exists(requests, request -> request.code = 202 or (request.code = 21 and request.answered > 0))
        then flatten(transform(filter(requests, request -> request.code = 202), request -> request.unanswered))
    end as unanswered_topics
  from source
)

select * from renamed
