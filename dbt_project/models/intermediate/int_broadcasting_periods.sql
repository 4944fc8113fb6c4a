-- One row per period in which a broker said that consumers of a group were in broadcasting mode, as of the watermark:
-- (cluster, broker, consumer_group, broadcasting_from).
select
  consumers.cluster,
  {{ without_prefixes('consumers.group_name') }} as consumer_group,
  consumers.valid_from as broadcasting_from,
  {{ valid_to_as_of('consumers') }} as broadcasting_to
from {{ ref('stg_consumers') }} as consumers
inner join {{ ref('int_facts_as_of') }} as facts
  on consumers.cluster = facts.cluster and consumers.valid_from <= facts.as_of
where consumers.message_model = 'BROADCASTING'
