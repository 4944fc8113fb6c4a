-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('duplicates'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['deliveries', 'duplicated', 'attempts', 'duplicates', 'extra_copies']
) }}
