-- One row per consumer group and day: (cluster, consumer_group, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('reverse_orphans'),
  key=['cluster', 'consumer_group'],
  counts=['deliveries', 'unpublished', 'before_history', 'grpc_producer', 'untraced_send']
) }}
