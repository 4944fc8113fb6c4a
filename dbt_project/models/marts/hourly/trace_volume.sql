-- One row per trace topic, type, topic and group of records, and hour of the store time:
-- (cluster, trace_topic, record_type, topic, group_name, hour).
{{ config(partition_by='days(hour)', replaces='hour_of_records') }}
select
  cluster,
  trace_topic,
  record_type,
  topic,
  group_name,
  hour,
  sum(records) as records,
  count(*) as trace_messages,
  sum(stored_bytes) as stored_bytes
from {{ rows_in_hours_of('affected', ref('int_trace_volume')) }}
group by cluster, trace_topic, record_type, topic, group_name, hour
