-- One row per reason, client and day: (cluster, client, day, reason_class, reason), with the sample of the first hour.
{{ config(materialized='stable_view') }}
select
  cluster,
  client,
  date(hour) as day,
  reason_class,
  reason,
  is_unknown_layout,
  sum(records) as records,
  min(first_stored_at) as first_stored_at,
  max(last_stored_at) as last_stored_at,
  min_by(sample, hour) as sample
from {{ ref('invalid_records') }}
group by cluster, client, date(hour), reason_class, reason, is_unknown_layout
