-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(materialized='stable_view') }}

{{ by_day(
  ref('duplicates'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['deliveries', 'duplicated', 'attempts', 'duplicates', 'extra_copies']
) }}
