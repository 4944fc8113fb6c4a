-- One row per reason, client and day: (cluster, client, day, reason_class, reason), with the sample of the first hour.
{{ config(partition_by='day', replaces='day') }}
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
from {{ rows_in_days_of('affected', ref('invalid_records')) }}
group by cluster, client, date(hour), reason_class, reason, is_unknown_layout
