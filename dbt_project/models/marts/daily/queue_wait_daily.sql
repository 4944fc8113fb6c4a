-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('queue_wait'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['deliveries'],
  histogram='latency'
) }}
