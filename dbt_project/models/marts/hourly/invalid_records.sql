-- One row per reason, client and hour of the store time: (cluster, client, hour, reason_class, reason), of Invalid records.
{{ config(partition_by='days(hour)', replaces='hour_of_records') }}
select
  cluster,
  client,
  hour,
  reason_class,
  invalid_reason as reason,
  reason_class in ('unknown_type', 'field_count') as is_unknown_layout,
  count(*) as records,
  min(store_time) as first_stored_at,
  max(store_time) as last_stored_at,
  make_valid_utf8(cast(substring(min_by(raw, record_position), 1, 200) as string)) as sample
from {{ rows_in_hours_of('affected', ref('int_invalid_records')) }}
group by cluster, client, hour, reason_class, invalid_reason
