-- One row per consumer group, topic and hour: (cluster, consumer_group, topic, hour), of deliveries; topic is NULL if no Pub of
-- the message is known.
{{ config(partition_by='days(hour)', replaces='hour') }}

{{ latency_by_hour(
  ref('fct_deliveries'),
  key=['cluster', 'consumer_group', 'topic'],
  milliseconds='queue_wait_ms',
  row_count='deliveries'
) }}
