-- One row per period of store time for which trace messages of a cluster may be missing: (cluster, gap_from, gap_to).
{{ config(materialized='audited_table', contract={'enforced': true}) }}

select
  cluster,
  gap_from,
  gap_to
from {{ ref('stg_ingest_gaps') }}
group by cluster, gap_from, gap_to
