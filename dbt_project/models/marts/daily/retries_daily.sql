-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('retries'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=['deliveries', 'attempts', 'retried', 'exhausted', 'retries'],
  maxima=['max_retries'],
  histogram='counts'
) }}
