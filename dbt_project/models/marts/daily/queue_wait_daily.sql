-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(materialized='stable_view') }}

{{ by_day(
  ref('queue_wait'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['deliveries'],
  histogram='latency'
) }}
