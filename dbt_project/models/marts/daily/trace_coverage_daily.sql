-- One row per side, topic, consumer group and day: (cluster, side, topic, consumer_group, day).
{{ config(partition_by='day', replaces='day', set='covered') }}

{{ by_day(
  ref('trace_coverage'),
  key=['cluster', 'side', 'topic', 'consumer_group'],
  counts=['broker_messages', 'traced', 'traced_known', 'hours_known'],
  set='covered'
) }}
