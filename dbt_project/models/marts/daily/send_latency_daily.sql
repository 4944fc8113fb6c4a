-- One row per topic, producer group and day: (cluster, topic, producer_group, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('send_latency'),
  key=['cluster', 'topic', 'producer_group'],
  counts=['sends', 'succeeded', 'status_unknown', 'calls', 'sends_by_store_time', 'extra_copies'],
  histogram='latency'
) }}
