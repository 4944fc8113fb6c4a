-- One row per trace topic, type, topic and group of records, and day:
-- (cluster, trace_topic, record_type, topic, group_name, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('trace_volume'),
  key=['cluster', 'trace_topic', 'record_type', 'topic', 'group_name'],
  counts=['records', 'trace_messages', 'stored_bytes']
) }}
