-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('consume_latency'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['attempts_with_end'],
  histogram='latency'
) }}
