-- One row a stretch of store time of which a cluster's trace messages may be missing: (cluster, gap_from, gap_to).
{{ config(materialized='audited_table', contract={'enforced': true}) }}

select
  cluster,
  gap_from,
  gap_to
from {{ ref('stg_ingest_gaps') }}
group by cluster, gap_from, gap_to
