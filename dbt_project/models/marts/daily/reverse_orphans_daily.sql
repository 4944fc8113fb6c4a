-- One row per consumer group and day: (cluster, consumer_group, day).
{{ config(materialized='stable_view') }}

{{ by_day(
  ref('reverse_orphans'),
  key=['cluster', 'consumer_group'],
  counts=['deliveries', 'unpublished', 'before_history', 'grpc_producer', 'untraced_send']
) }}
