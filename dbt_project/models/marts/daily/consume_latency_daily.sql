-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(materialized='stable_view') }}

{{ by_day(
  ref('consume_latency'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['attempts_with_end'],
  histogram='latency'
) }}
