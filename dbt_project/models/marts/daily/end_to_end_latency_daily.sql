-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('end_to_end_latency'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['deliveries', 'deliveries_succeeded'],
  histogram='latency'
) }}
