-- One row per cluster: the collection of broker facts that belongs to its watermark (docs/broker_facts.md). Later collections may
-- be in the tables; a run must not see them, so that a rebuild at the same watermark reads the same facts.
select
  observations.cluster,
  max(observations.observed_at) as as_of
from {{ ref('stg_broker_observations') }} as observations
inner join {{ ref('int_watermarks') }} as watermarks
  on
    observations.cluster = watermarks.cluster
    and (observations.watermark is null or observations.watermark < watermarks.watermark)
group by observations.cluster
