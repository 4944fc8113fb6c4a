-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(materialized='stable_view') }}

{{ by_day(
  ref('retries'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['deliveries', 'attempts', 'retried', 'exhausted', 'retries'],
  maxima=['max_retries'],
  histogram='counts'
) }}
