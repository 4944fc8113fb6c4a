-- One row per cluster: the broker facts and the watermark that trace_coverage was computed with. Published, so that the next
-- incremental run computes only the hours that newer ones decide.
{{ config(materialized='audited_table', contract={'enforced': true}) }}
select
  watermarks.cluster,
  facts.as_of,
  watermarks.watermark
from {{ ref('int_watermarks') }} as watermarks
left join {{ ref('int_facts_as_of') }} as facts
  on watermarks.cluster = facts.cluster
